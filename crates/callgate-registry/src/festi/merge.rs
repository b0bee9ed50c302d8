//! A Festi application's rows and our own, as one.
//!
//! Festi's rows say which methods there are, who may call them and who the callers are. Our own say what
//! Festi has no column for, and bring methods of their own. Rows of ours never take anything away from
//! what Festi's protect.
//!
//! Numbers of rows: of methods, Festi's are turned into negative ones, and ours stay, so that ours can be
//! written back; of sections it is the other way round, since grants and actions name Festi's.

use std::collections::{HashMap, HashSet};

use crate::festi::database::{FestiRows, is_of_mcp};
use crate::rows::{
    AccessRows, ActionRow, CatalogRows, GrantRow, MethodColumn, MethodRow, RoleRow, SectionRow,
    SettingRow, TypeRow, UserRow, action_key, present,
};

/// What is said of Festi's methods beside its database, such as a file does.
#[derive(Debug, Clone, Default)]
pub struct Overlay {
    /// What is said of each. An id that Festi does not have counts for nothing.
    pub methods: Vec<MethodRow>,
    /// What classes hold.
    pub types: Vec<TypeRow>,
}

/// How Festi's methods are taken.
#[derive(Debug, Clone)]
pub struct AttachOptions {
    /// What runs those of which nothing else is said.
    pub upstream: String,
    /// Whether the types of results are promised, and results are checked then.
    pub output_schemas: bool,
    /// What is said of them beside the database.
    pub overlay: Overlay,
}

/// Another row's number, which no row has by itself.
pub(super) fn foreign(id: i64) -> i64 {
    !id
}

/// The methods of both. A row of ours with an id of Festi's is an overlay.
pub(super) fn methods(
    festi: Vec<MethodRow>,
    own: Vec<MethodRow>,
    options: &AttachOptions,
) -> Vec<MethodRow> {
    let in_file: HashMap<&str, &MethodRow> =
        options.overlay.methods.iter().map(|row| (row.rpc_method.as_str(), row)).collect();
    let mut overlays: HashMap<String, MethodRow> = HashMap::new();
    let festis: HashSet<String> = festi.iter().map(|row| row.rpc_method.clone()).collect();
    let mut others = Vec::new();
    for row in own {
        if festis.contains(&row.rpc_method) {
            overlays.entry(row.rpc_method.clone()).or_insert(row);
        } else {
            others.push(row);
        }
    }
    let merged = festi.into_iter().filter(|row| !is_of_mcp(&row.rpc_method)).map(|row| {
        let file = in_file.get(row.rpc_method.as_str()).copied();
        let mut row = base(row, file, options);
        if let Some(over) = overlays.get(&row.rpc_method) {
            lay_over(&mut row, over);
            row.id = over.id;
        }
        row
    });
    let mut merged: Vec<MethodRow> = merged.collect();
    merged.extend(others);
    merged
}

/// A row of Festi's with what the file says of it.
pub(super) fn base(
    festi: MethodRow,
    file: Option<&MethodRow>,
    options: &AttachOptions,
) -> MethodRow {
    let mut row = MethodRow { id: foreign(festi.id), ..festi };
    if present(row.upstream.as_deref()).is_none() {
        row.upstream = Some(options.upstream.clone());
    }
    if !options.output_schemas {
        // PHP promises `bool` where the result is what a `Response` holds.
        row.return_type = None;
    }
    if let Some(file) = file {
        lay_over(&mut row, file);
    }
    row
}

/// Returns the columns that an overlay may give: who may call a method is not among them.
fn columns() -> impl Iterator<Item = &'static MethodColumn> {
    let is_protected = |name| matches!(name, "plugin" | "method" | "sections");
    MethodRow::COLUMNS.iter().filter(move |column| !is_protected(column.name))
}

/// Columns that an overlay with parameters gives all of.
const WITH_PARAMS: [&str; 3] = ["defaults", "input_schema", "params_types"];

fn lay_over(row: &mut MethodRow, over: &MethodRow) {
    if present(over.params.as_deref()).is_some() {
        (row.params_types, row.defaults, row.input_schema) = (None, None, None);
    }
    for column in columns() {
        if present(column.get(over).as_deref()).is_some() {
            column.get_mut(row).clone_from(column.get(over));
        }
    }
    row.unreadable = row.unreadable.take().or_else(|| over.unreadable.clone());
}

/// What an overlay has to say for a method to be as `wanted`: all that is different from `base`.
pub(crate) fn difference(base: &MethodRow, wanted: &MethodRow) -> MethodRow {
    let mut difference =
        MethodRow { id: wanted.id, rpc_method: wanted.rpc_method.clone(), ..MethodRow::default() };
    let has_params = present(wanted.params.as_deref()).is_some() && wanted.params != base.params;
    for column in columns() {
        let wanted = column.get(wanted);
        if wanted != column.get(base) || has_params && WITH_PARAMS.contains(&column.name) {
            column.get_mut(&mut difference).clone_from(wanted);
        }
    }
    difference
}

/// A column that is to be empty, which an overlay cannot say: `base` has something there.
pub(crate) fn emptied(base: &MethodRow, wanted: &MethodRow) -> Option<&'static str> {
    let is_emptied = |column: &&MethodColumn| {
        column.get(wanted).as_deref().is_some_and(|text| text.trim().is_empty())
            && present(column.get(base).as_deref()).is_some()
    };
    columns().find(is_emptied).map(|column| column.name)
}

/// The sections of both, and what ours are numbered then. One that both have is Festi's.
struct Sections {
    rows: Vec<SectionRow>,
    numbers: HashMap<i64, i64>,
    /// Those of ours that Festi does not have.
    own: HashSet<i64>,
}

impl Sections {
    fn of(festi: Vec<SectionRow>, own: Vec<SectionRow>) -> Self {
        let idents: HashMap<String, i64> =
            festi.iter().map(|row| (row.ident.clone(), row.id)).collect();
        let mut sections = Self { rows: festi, numbers: HashMap::new(), own: HashSet::new() };
        for row in own {
            if let Some(id) = idents.get(&row.ident) {
                sections.numbers.insert(row.id, *id);
            } else {
                sections.numbers.insert(row.id, foreign(row.id));
                sections.own.insert(row.id);
                sections.rows.push(SectionRow { id: foreign(row.id), ..row });
            }
        }
        sections.rows.sort_by(|a, b| a.ident.cmp(&b.ident));
        sections
    }

    /// Where there is no such section it stays one that is not there.
    fn number(&self, own: i64) -> i64 {
        self.numbers.get(&own).copied().unwrap_or_else(|| foreign(own))
    }

    /// What ours grant on sections of our own. On Festi's, Festi's rows alone count.
    fn grants(&self, festi: Vec<GrantRow>, own: Vec<GrantRow>) -> Vec<GrantRow> {
        let own = own.into_iter().filter(|row| self.own.contains(&row.id_section));
        let own = own.map(|row| GrantRow { id_section: self.number(row.id_section), ..row });
        festi.into_iter().chain(own).collect()
    }
}

/// What Festi's methods need Festi's actions say; ours are for methods of our own.
fn actions(
    festi: Vec<ActionRow>,
    own: Vec<ActionRow>,
    sections: &Sections,
    methods: &[MethodRow],
    festis: &HashSet<String>,
) -> Vec<ActionRow> {
    let (of_festi, of_ours): (Vec<_>, Vec<_>) =
        methods.iter().partition(|row| festis.contains(&row.rpc_method));
    let of_ours: HashSet<_> = of_ours.into_iter().map(MethodRow::action_key).collect();
    let of_festi: HashSet<_> = of_festi.into_iter().map(MethodRow::action_key).collect();
    let counts = |row: &ActionRow| {
        let key = action_key(&row.plugin, &row.method);
        of_ours.contains(&key) || !of_festi.contains(&key)
    };
    let own = own.into_iter().filter(counts);
    let own = own.map(|row| ActionRow { id_section: sections.number(row.id_section), ..row });
    festi.into_iter().chain(own).collect()
}

/// What Festi sets; what it does not set is as our own rows say.
pub(super) fn settings(festi: Vec<SettingRow>, own: Vec<SettingRow>) -> Vec<SettingRow> {
    let set: HashSet<String> = festi.iter().map(|row| row.name.clone()).collect();
    let own = own.into_iter().filter(|row| !set.contains(&row.name));
    festi.into_iter().chain(own).collect()
}

/// Classes of ours before those of the file.
fn types(own: Vec<TypeRow>, file: &[TypeRow]) -> Vec<TypeRow> {
    let known: HashSet<String> = own.iter().map(|row| row.name.clone()).collect();
    let file = file.iter().filter(|row| !known.contains(&row.name)).cloned();
    own.into_iter().chain(file).collect()
}

/// All that a catalog is made from; the revision is that of our own rows.
pub(super) fn catalog(festi: FestiRows, own: CatalogRows, options: &AttachOptions) -> CatalogRows {
    let festis = festi.methods.iter().map(|row| row.rpc_method.clone()).collect();
    let sections = Sections::of(festi.sections, own.sections);
    let methods = methods(festi.methods, own.methods, options);
    CatalogRows {
        revision: own.revision,
        actions: actions(festi.actions, own.actions, &sections, &methods, &festis),
        methods,
        sections: sections.rows,
        types: types(own.types, &options.overlay.types),
        upstreams: own.upstreams,
        settings: settings(festi.settings, own.settings),
    }
}

/// All that access is made from; the revision is that of our own rows.
pub(super) fn access(festi: FestiRows, own: AccessRows) -> AccessRows {
    let sections = Sections::of(festi.sections, own.sections);
    AccessRows {
        users: users(festi.users, &festi.roles),
        roles: festi.roles,
        user_grants: sections.grants(festi.user_grants, own.user_grants),
        role_grants: sections.grants(festi.role_grants, own.role_grants),
        sections: sections.rows,
        settings: settings(festi.settings, own.settings),
        ..own
    }
}

/// All sections.
pub(super) fn sections(festi: Vec<SectionRow>, own: Vec<SectionRow>) -> Vec<SectionRow> {
    Sections::of(festi, own).rows
}

/// Users with their roles' names, by name.
pub(super) fn users(users: Vec<UserRow>, roles: &[RoleRow]) -> Vec<UserRow> {
    let captions: HashMap<i64, &str> =
        roles.iter().map(|row| (row.id, row.caption.as_str())).collect();
    let role = |row: &UserRow| captions.get(&row.id_type?).map(|caption| (*caption).to_owned());
    let mut users: Vec<UserRow> =
        users.into_iter().map(|row| UserRow { role: role(&row), ..row }).collect();
    users.sort_by(|a, b| a.login.cmp(&b.login));
    users
}
