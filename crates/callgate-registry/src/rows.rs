//! The registry's rows as they are, before anything is made of them.

use callgate::Secret;
use callgate::model::DefinitionError;

use crate::db::column::{Kind, Width};
use crate::db::database::Cell;

/// The counters; every change raises one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Revisions {
    /// Methods, types, upstreams, sections, actions, settings.
    pub catalog: i64,
    /// Users, roles, grants, credentials, sections, settings.
    pub access: i64,
    /// Tokens.
    pub tokens: i64,
    /// The secrets that sign.
    pub keys: i64,
    /// The number of the last change of a session.
    pub sessions: i64,
    /// The number of the last message.
    pub messages: i64,
}

/// Declares the columns of `rpc_methods` besides its keys: fields of [`MethodRow`], and a table of them.
macro_rules! method_columns {
    ($($name:ident: $kind:expr,)*) => {
        /// A row of `rpc_methods`, each column as text.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the columns are explained in docs/reference/registry.md")]
        pub struct MethodRow {
            pub id: i64,
            pub rpc_method: String,
            $(pub $name: Option<String>,)*
            /// The first column whose bytes are not text.
            pub unreadable: Option<String>,
        }

        impl MethodRow {
            /// The columns besides `id` and `rpc_method`.
            pub const COLUMNS: &'static [MethodColumn] = &[$(MethodColumn {
                name: stringify!($name),
                kind: $kind,
                get: |row| &row.$name,
                get_mut: |row| &mut row.$name,
            }),*];
        }
    };
}

method_columns! {
    title: Kind::Text(Width::Paragraph),
    description: Kind::Text(Width::Free),
    safety: Kind::Text(Width::Paragraph),
    annotations: Kind::Json,
    exposed: Kind::Flag,
    tool_name: Kind::Text(Width::Name),
    params: Kind::Json,
    params_types: Kind::Json,
    defaults: Kind::Json,
    return_type: Kind::Text(Width::Paragraph),
    input_schema: Kind::Schema,
    output_schema: Kind::Schema,
    params_by: Kind::ParamsBy,
    plugin: Kind::Text(Width::Name),
    method: Kind::Text(Width::Name),
    sections: Kind::Text(Width::Paragraph),
    upstream: Kind::Text(Width::Name),
}

/// A column of `rpc_methods`, and its field of a [`MethodRow`].
#[derive(Debug)]
pub struct MethodColumn {
    /// Name of the column.
    pub name: &'static str,
    pub(crate) kind: Kind,
    get: fn(&MethodRow) -> &Option<String>,
    get_mut: fn(&mut MethodRow) -> &mut Option<String>,
}

impl MethodColumn {
    /// Whether its values are JSON.
    pub fn is_json(&self) -> bool {
        matches!(self.kind, Kind::Json | Kind::Schema)
    }

    /// Returns the column of a row.
    pub fn get<'r>(&self, row: &'r MethodRow) -> &'r Option<String> {
        (self.get)(row)
    }

    /// Returns the column of a row, to change it.
    pub fn get_mut<'r>(&self, row: &'r mut MethodRow) -> &'r mut Option<String> {
        (self.get_mut)(row)
    }
}

/// The upstream of rows that name none.
pub const DEFAULT_UPSTREAM: &str = "default";

impl MethodRow {
    /// The upstream that the row names, or the default one.
    pub fn upstream_name(&self) -> &str {
        present(self.upstream.as_deref()).unwrap_or(DEFAULT_UPSTREAM)
    }

    /// Returns the columns in the order in which rows are read and written.
    pub(crate) fn column_names() -> impl Iterator<Item = &'static str> {
        std::iter::once("rpc_method").chain(Self::COLUMNS.iter().map(|column| column.name))
    }

    /// Makes a row of cells in the order of [`Self::column_names`].
    pub(crate) fn from_cells(id: i64, mut next: impl FnMut() -> Cell) -> Self {
        let mut unreadable = None;
        let mut text = |name: &str| match next() {
            Cell::Null => None,
            Cell::Int(number) => Some(number.to_string()),
            Cell::Text(text) => Some(text),
            Cell::Broken(text) => {
                unreadable.get_or_insert_with(|| name.to_owned());
                Some(text)
            }
        };
        let rpc_method = text("rpc_method").unwrap_or_default();
        let mut row = Self { id, rpc_method, ..Self::default() };
        for column in Self::COLUMNS {
            *column.get_mut(&mut row) = text(column.name);
        }
        row.unreadable = unreadable;
        row
    }

    /// Returns all columns but the number and the tool's name, for comparing.
    pub(crate) fn without_tool_name(&self) -> impl std::hash::Hash + '_ {
        let compared = Self::COLUMNS.iter().filter(|column| column.name != "tool_name");
        let columns: Vec<_> = compared.map(|column| column.get(self)).collect();
        (&self.rpc_method, columns, &self.unreadable)
    }

    /// The key that its actions have too, see [`action_key`].
    pub fn action_key(&self) -> (String, String) {
        let (plugin, method) = self.permission_key();
        action_key(plugin, method)
    }

    /// Returns the sections that the row names: a JSON list, or names separated by commas or spaces.
    pub fn section_names(&self) -> Result<Vec<String>, DefinitionError> {
        let Some(text) = present(self.sections.as_deref()) else { return Ok(Vec::new()) };
        if text.starts_with('[') {
            let names = serde_json::from_str(text);
            return names.map_err(|error| DefinitionError::value("sections", error));
        }
        if text.starts_with('{') {
            return Err(DefinitionError::value("sections", "expected a list of names"));
        }
        Ok(text.split([',', ' ']).filter(|word| !word.is_empty()).map(ToOwned::to_owned).collect())
    }

    /// Returns whether the method is a tool, or `None` if the row does not specify it.
    pub(crate) fn is_exposed(&self) -> Result<Option<bool>, DefinitionError> {
        match present(self.exposed.as_deref()) {
            None => Ok(None),
            Some("1" | "true" | "t") => Ok(Some(true)),
            Some("0" | "false" | "f") => Ok(Some(false)),
            Some(other) => Err(DefinitionError::value(
                "exposed",
                format_args!("expected 0 or 1, found `{other}`"),
            )),
        }
    }

    /// What its actions are found by: plugin and method, else upstream and id.
    pub fn permission_key(&self) -> (&str, &str) {
        (
            present(self.plugin.as_deref()).unwrap_or_else(|| self.upstream_name()),
            present(self.method.as_deref()).unwrap_or(&self.rpc_method),
        )
    }
}

/// What an action and its method are matched by.
///
/// PHP's names of classes and methods ignore case, and so do many databases; where an action differs from its method in case only, taking them for two
/// would leave the method open.
pub fn action_key(plugin: &str, method: &str) -> (String, String) {
    (plugin.to_ascii_lowercase(), method.to_ascii_lowercase())
}

/// A text that says something.
pub(crate) fn present(column: Option<&str>) -> Option<&str> {
    column.map(str::trim).filter(|text| !text.is_empty())
}

/// A row of `sections`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionRow {
    /// Its number.
    pub id: i64,
    /// Its name for people.
    pub caption: String,
    /// Its name for code.
    pub ident: String,
    /// Festi's own; what counts is the mask of each action.
    pub mask: String,
}

/// A row of `section_actions`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the columns are explained in docs/reference/registry.md")]
pub struct ActionRow {
    pub id_section: i64,
    pub plugin: String,
    pub method: String,
    pub mask: String,
}

/// A row of `callgate_types`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the columns are explained in docs/reference/registry.md")]
pub struct TypeRow {
    pub name: String,
    pub fields: Option<String>,
    pub schema: Option<String>,
}

/// A row of `settings`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the columns are explained in docs/reference/registry.md")]
pub struct SettingRow {
    pub name: String,
    pub value: String,
}

/// A row of `users`, with the role's name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the columns are explained in docs/reference/registry.md")]
pub struct UserRow {
    pub id: i64,
    pub login: String,
    pub id_type: Option<i64>,
    pub role: Option<String>,
}

/// A row of `users_types`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the columns are explained in docs/reference/registry.md")]
pub struct RoleRow {
    pub id: i64,
    pub caption: String,
}

/// A row of one of the two permission tables: what a user or a role (`id_holder`) has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the columns are explained in docs/reference/registry.md")]
pub struct GrantRow {
    pub id_section: i64,
    pub id_holder: i64,
    pub value: String,
}

/// Whose grant it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// A user, by number.
    User(i64),
    /// A role, by number.
    Role(i64),
}

/// A row of `callgate_tokens`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the columns are explained in docs/reference/registry.md")]
pub struct TokenRow {
    pub id: i64,
    pub id_user: i64,
    pub login: Option<String>,
    pub name: String,
    pub digest: String,
    pub created_at: i64,
    pub expires_at: Option<i64>,
    pub last_used_at: Option<i64>,
}

/// A row of `callgate_credentials`: what a user is known by at a service.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the columns are explained in docs/reference/registry.md")]
pub struct CredentialRow {
    pub id_user: i64,
    pub login: Option<String>,
    pub upstream: String,
    pub secret: Option<Secret>,
    pub set_at: i64,
}

/// A row of `callgate_upstreams`: a service that runs methods.
#[derive(Clone, PartialEq, Eq)]
pub struct UpstreamRow {
    /// What methods call it.
    pub name: String,
    /// How it is called, as JSON.
    pub config: String,
}

/// There may be secrets in it.
impl std::fmt::Debug for UpstreamRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UpstreamRow").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What an import wrote last of a method, so that the next one knows what people changed since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportRow {
    /// The upstream that the method is on.
    pub upstream: String,
    /// The method's id.
    pub rpc_method: String,
    /// What it was imported from.
    pub source: String,
    /// The values, as JSON.
    pub written: String,
}

/// All that a catalog is made from, read at one moment.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "each is the table of that name")]
pub struct CatalogRows {
    pub revision: i64,
    pub methods: Vec<MethodRow>,
    pub sections: Vec<SectionRow>,
    pub actions: Vec<ActionRow>,
    pub types: Vec<TypeRow>,
    pub upstreams: Vec<UpstreamRow>,
    /// The prefix is among them.
    pub settings: Vec<SettingRow>,
}

/// All that access is made from, read at one moment.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "each is the table of that name")]
pub struct AccessRows {
    pub revision: i64,
    pub users: Vec<UserRow>,
    pub roles: Vec<RoleRow>,
    pub sections: Vec<SectionRow>,
    pub user_grants: Vec<GrantRow>,
    pub role_grants: Vec<GrantRow>,
    pub credentials: Vec<CredentialRow>,
    pub settings: Vec<SettingRow>,
}

/// A row of `callgate_keys`: a secret that signs.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyRow {
    /// Its number; the highest is the newest.
    pub id: i64,
    /// It, in hexadecimal.
    pub secret: String,
    /// When it was made, in seconds since 1970.
    pub created_at: i64,
    /// From when on it signs.
    pub active_from: i64,
}

/// It is a secret.
impl std::fmt::Debug for KeyRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyRow").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A row of `callgate_messages`: what a client sent about a call that may run on another gateway.
#[derive(Clone, PartialEq, Eq)]
pub struct MessageRow {
    /// Higher than that of any earlier one; given by the registry.
    pub number: i64,
    /// The session's nonce, in hexadecimal.
    pub session: String,
    /// The message as it came.
    pub message: String,
}

/// It is what somebody answered.
impl std::fmt::Debug for MessageRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MessageRow").field("number", &self.number).finish_non_exhaustive()
    }
}

/// What a session of MCP became.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionRow {
    /// What tells it from the others, in hexadecimal.
    pub nonce: String,
    /// Higher than that of any earlier change; given by the registry.
    pub number: i64,
    /// The client ended it.
    pub ended: bool,
    /// The least severe log messages that the client wants.
    pub log_level: Option<String>,
    /// The resources that the client wants to hear of, as a JSON list.
    pub subscriptions: Option<String>,
    /// When it ends by itself, in seconds since 1970.
    pub ends_at: i64,
}
