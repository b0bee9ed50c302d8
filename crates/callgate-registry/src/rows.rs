//! The registry's rows as Rust types.

use callgate::Secret;
use callgate::model::DefinitionError;

use crate::db::column::Kind;
use crate::db::database::{Cell, FromRow, Row};
use crate::db::error::{DatabaseError, DatabaseErrorKind, Result};

/// Change counters of the registry. Every change that servers must read increments at least one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChangeCounters {
    /// Methods, types, upstreams, sections, actions, settings.
    pub catalog: i64,
    /// Users, roles, grants, credentials, sections, settings.
    pub access: i64,
    /// Tokens.
    pub tokens: i64,
    /// Keys.
    pub keys: i64,
    /// Number of the last session change.
    pub sessions: i64,
    /// Number of the last message.
    pub messages: i64,
}

/// Declares the columns of `rpc_methods` as fields of [`MethodRow`] and as the list [`MethodRow::COLUMNS`].
macro_rules! method_columns {
    ($($name:ident: $kind:expr,)*) => {
        /// A row of `rpc_methods`, each column as text.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the columns are explained in docs/reference/registry.md")]
        pub struct MethodRow {
            pub id: i64,
            pub rpc_method: String,
            $(pub $name: Option<String>,)*
            /// First column whose bytes are not UTF-8.
            pub unreadable: Option<String>,
        }

        impl MethodRow {
            /// The columns other than `id` and `rpc_method`.
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
    title: Kind::Text,
    description: Kind::Text,
    safety: Kind::Text,
    annotations: Kind::Json,
    exposed: Kind::Flag,
    tool_name: Kind::Text,
    remote_name: Kind::Text,
    params: Kind::Json,
    params_types: Kind::Json,
    defaults: Kind::Json,
    return_type: Kind::Text,
    input_schema: Kind::Schema,
    output_schema: Kind::Schema,
    params_by: Kind::ParamsBy,
    plugin: Kind::Text,
    method: Kind::Text,
    sections: Kind::Text,
    upstream: Kind::Text,
}

/// A column of `rpc_methods`, and the corresponding field of [`MethodRow`].
#[derive(Debug)]
pub struct MethodColumn {
    /// Name of the column.
    pub name: &'static str,
    pub(crate) kind: Kind,
    get: fn(&MethodRow) -> &Option<String>,
    get_mut: fn(&mut MethodRow) -> &mut Option<String>,
}

impl MethodColumn {
    /// Returns `true` if the values of the column are JSON.
    pub fn is_json(&self) -> bool {
        matches!(self.kind, Kind::Json | Kind::Schema)
    }

    /// Returns the value of this column in a row.
    pub fn get<'r>(&self, row: &'r MethodRow) -> &'r Option<String> {
        (self.get)(row)
    }

    /// Returns a mutable reference to the value of this column in a row.
    pub fn get_mut<'r>(&self, row: &'r mut MethodRow) -> &'r mut Option<String> {
        (self.get_mut)(row)
    }
}

/// Prefix of a guess in the column `safety`, such as `guessed_read_only`. An import wrote the guess, and nobody has
/// confirmed it.
pub const GUESSED: &str = "guessed_";

/// Key in the column `annotations`. If its value is `false`, arguments are not checked. Clients do not see this key.
pub const CHECK_ARGUMENTS: &str = "checkArguments";

/// Name of the upstream for rows that name none.
pub const DEFAULT_UPSTREAM: &str = "default";

impl MethodRow {
    /// Returns the name of the upstream.
    pub fn upstream_name(&self) -> &str {
        non_empty(self.upstream.as_deref()).unwrap_or(DEFAULT_UPSTREAM)
    }

    /// Returns the safety without the prefix of a guess, and whether it is a guess.
    pub fn safety_or_guess(&self) -> (Option<&str>, bool) {
        let safety = non_empty(self.safety.as_deref());
        match safety.and_then(|safety| safety.strip_prefix(GUESSED)) {
            Some(guess) => (Some(guess), true),
            None => (safety, false),
        }
    }

    /// Returns the columns in the order in which rows are read and written.
    pub(crate) fn column_names() -> impl Iterator<Item = &'static str> {
        std::iter::once("rpc_method").chain(Self::COLUMNS.iter().map(|column| column.name))
    }

    /// Builds a row from cells in the order of [`Self::column_names`].
    pub(crate) fn from_cells(id: i64, mut cells: impl Iterator<Item = Cell>) -> Self {
        let mut unreadable = None;
        let mut text = |name: &str| {
            let cell = cells.next()?;
            if matches!(cell, Cell::Broken(_)) {
                unreadable.get_or_insert_with(|| name.to_owned());
            }
            cell.into_text()
        };
        let rpc_method = text("rpc_method").unwrap_or_default();
        let mut row = Self { id, rpc_method, ..Self::default() };
        for column in Self::COLUMNS {
            *column.get_mut(&mut row) = text(column.name);
        }
        row.unreadable = unreadable;
        row
    }

    /// Returns all columns except id and tool name, for hashing.
    pub(crate) fn without_tool_name(&self) -> impl std::hash::Hash + '_ {
        let compared = Self::COLUMNS.iter().filter(|column| column.name != "tool_name");
        let columns: Vec<_> = compared.map(|column| column.get(self)).collect();
        (&self.rpc_method, columns, &self.unreadable)
    }

    /// Returns the key of the method's actions, see [`action_key`].
    pub fn action_key(&self) -> (String, String) {
        let (plugin, method) = self.permission_key();
        action_key(plugin, method)
    }

    /// Returns the sections that the row names. The column is a JSON list, or contains names separated by commas or
    /// spaces.
    ///
    /// Only an empty column and an empty JSON list name no section. Separators without names are an error, because the
    /// method would otherwise be open.
    pub fn section_names(&self) -> Result<Vec<String>, DefinitionError> {
        let invalid = |problem: &dyn std::fmt::Display| DefinitionError::value("sections", problem);
        let text = self.sections.as_deref().unwrap_or_default();
        let is_json = text.trim_start().starts_with('[');
        let names: Vec<String> = if is_json {
            serde_json::from_str(text).map_err(|error| invalid(&error))?
        } else {
            let parts = text.split([',', ' ']).filter(|part| !part.is_empty());
            parts.map(ToOwned::to_owned).collect()
        };
        let has_only_separators = names.is_empty() && !is_json && !text.is_empty();
        let is_blank = |name: &String| name.trim().is_empty();
        if has_only_separators || names.iter().any(is_blank) || text.trim_start().starts_with('{') {
            return Err(invalid(&format_args!("expected a list of names, found `{text}`")));
        }
        Ok(names)
    }

    /// Returns whether the method is a tool, or `None` if the row does not specify this.
    pub(crate) fn is_exposed(&self) -> Result<Option<bool>, DefinitionError> {
        match non_empty(self.exposed.as_deref()) {
            None => Ok(None),
            Some("1" | "true" | "t") => Ok(Some(true)),
            Some("0" | "false" | "f") => Ok(Some(false)),
            Some(other) => Err(DefinitionError::value(
                "exposed",
                format_args!("expected 0 or 1, found `{other}`"),
            )),
        }
    }

    /// Returns the plugin and the method of the row's actions. By default these are the upstream and the id.
    pub fn permission_key(&self) -> (&str, &str) {
        (
            non_empty(self.plugin.as_deref()).unwrap_or_else(|| self.upstream_name()),
            non_empty(self.method.as_deref()).unwrap_or(&self.rpc_method),
        )
    }
}

/// Returns the key with which actions are matched to methods.
///
/// Ignores case, as PHP and many databases do. Otherwise a method would be open if its action differed in case.
pub fn action_key(plugin: &str, method: &str) -> (String, String) {
    (plugin.to_ascii_lowercase(), method.to_ascii_lowercase())
}

/// Returns the trimmed text, or `None` if it is empty.
pub(crate) fn non_empty(column: Option<&str>) -> Option<&str> {
    column.map(str::trim).filter(|text| !text.is_empty())
}

/// Reads the id, and the columns in the order of [`MethodRow::column_names`]. The columns may be one JSON array.
impl FromRow for MethodRow {
    fn from_row(mut row: Row) -> Result<Self> {
        let id = row.get()?;
        let mut columns = row.into_cells();
        if columns.len() == 1 {
            columns = split_columns(columns.next().unwrap_or(Cell::Null))?.into_iter();
        }
        Ok(Self::from_cells(id, columns))
    }
}

/// Splits columns that were read together as one JSON array.
fn split_columns(cell: Cell) -> Result<Vec<Cell>> {
    let is_broken = matches!(cell, Cell::Broken(_));
    let Some(text) = cell.into_text() else { return Ok(Vec::new()) };
    let columns: Vec<Option<String>> = serde_json::from_str(&text).map_err(|error| {
        let message = format!("failed to read a row of methods: {error}");
        DatabaseError::new(DatabaseErrorKind::Other, message)
    })?;
    let cells = columns.into_iter().map(|text| match text {
        None => Cell::Null,
        Some(text) if is_broken && text.contains(char::REPLACEMENT_CHARACTER) => Cell::Broken(text),
        Some(text) => Cell::Text(text),
    });
    Ok(cells.collect())
}

/// Declares rows. Their columns are read in the order of the fields.
macro_rules! rows {
    ($(
        $(#[$doc:meta])*
        pub struct $name:ident { $($(#[$field_doc:meta])* pub $field:ident: $type:ty,)* }
    )*) => {$(
        $(#[$doc])*
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl FromRow for $name {
            fn from_row(mut row: Row) -> Result<Self> {
                Ok(Self { $($field: row.get()?,)* })
            }
        }
    )*};
}

rows! {
    /// A row of `sections`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SectionRow {
        /// Id.
        pub id: i64,
        /// Name for people.
        pub caption: String,
        /// Name for code.
        pub ident: String,
        /// Mask that Festi stores. Callgate uses the masks of actions instead.
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

    /// A row of a permission table, for a user or a role (`id_holder`).
    #[derive(Debug, Clone, PartialEq, Eq)]
    #[expect(missing_docs, reason = "the columns are explained in docs/reference/registry.md")]
    pub struct GrantRow {
        pub id_section: i64,
        pub id_holder: i64,
        pub value: String,
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

    /// A row of `callgate_credentials`: a user's credential at an upstream.
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
        /// Name by which methods refer to the upstream.
        pub name: String,
        /// Configuration as JSON.
        pub config: String,
    }

    /// Values that an import wrote for a method. The next import compares them with the method's row to detect
    /// manual changes.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ImportRow {
        /// Upstream of the method.
        pub upstream: String,
        /// Id of the method.
        pub rpc_method: String,
        /// Source of the import.
        pub source: String,
        /// Values as JSON.
        pub written: String,
    }

    /// A row of `callgate_keys`.
    #[derive(Clone, PartialEq, Eq)]
    pub struct KeyRow {
        /// Id. The newest key has the highest id.
        pub id: i64,
        /// Secret in hexadecimal.
        pub secret: String,
        /// Unix time of creation.
        pub created_at: i64,
        /// Unix time from which the key signs.
        pub active_from: i64,
    }

    /// A row of `callgate_messages`: a client's message about a call that may run on another server.
    #[derive(Clone, PartialEq, Eq)]
    pub struct MessageRow {
        /// Increasing number, assigned by the registry.
        pub number: i64,
        /// Nonce of the session in hexadecimal.
        pub session: String,
        /// The unchanged message.
        pub message: String,
    }

    /// State of an MCP session.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct SessionRow {
        /// Nonce in hexadecimal.
        pub nonce: String,
        /// Increasing number of the change, assigned by the registry.
        pub number: i64,
        /// Whether the client ended the session.
        pub ended: bool,
        /// Minimum level of log messages for the client.
        pub log_level: Option<String>,
        /// Subscribed resources as a JSON array.
        pub subscriptions: Option<String>,
        /// Unix time of expiry.
        pub ends_at: i64,
    }
}

impl TypeRow {
    /// Returns the upstream whose methods use the definition, and the name of the class. The upstream is `None` if all
    /// methods use the definition.
    pub fn class(&self) -> (Option<&str>, &str) {
        match self.name.rsplit_once(':') {
            Some((upstream, class)) => (Some(upstream), class),
            None => (None, &self.name),
        }
    }

    /// Returns the name of the row that defines a class for the methods of one upstream.
    pub fn name_for(upstream: &str, class: &str) -> String {
        format!("{upstream}:{class}")
    }
}

/// A user or a role with grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantHolder {
    /// A user id.
    User(i64),
    /// A role id.
    Role(i64),
}

/// Omits the configuration, which may contain secrets.
impl std::fmt::Debug for UpstreamRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UpstreamRow").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Rows of a catalog, read at one point in time.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "the names are those of tables and columns")]
pub struct CatalogRows {
    pub change_counter: i64,
    pub methods: Vec<MethodRow>,
    pub sections: Vec<SectionRow>,
    pub actions: Vec<ActionRow>,
    pub types: Vec<TypeRow>,
    pub upstreams: Vec<UpstreamRow>,
    /// Settings, including the prefix of tool names.
    pub settings: Vec<SettingRow>,
}

/// Rows of the access snapshot, read at one point in time.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "the names are those of tables and columns")]
pub struct AccessRows {
    pub change_counter: i64,
    pub users: Vec<UserRow>,
    pub roles: Vec<RoleRow>,
    pub sections: Vec<SectionRow>,
    pub user_grants: Vec<GrantRow>,
    pub role_grants: Vec<GrantRow>,
    pub credentials: Vec<CredentialRow>,
    pub settings: Vec<SettingRow>,
}

/// Hides the secret.
impl std::fmt::Debug for KeyRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyRow").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Omits the message, which may be confidential.
impl std::fmt::Debug for MessageRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MessageRow").field("number", &self.number).finish_non_exhaustive()
    }
}
