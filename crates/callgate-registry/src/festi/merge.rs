//! Merges the rows of a Festi database with the rows of a registry.
//!
//! Festi's rows define methods, permissions and users. The registry's rows add columns that Festi does not have, and
//! further methods. They never weaken Festi's permissions.
//!
//! To avoid clashes, the ids of one side are mapped to negative numbers. For methods these are Festi's ids, because
//! rows of the registry are updated by id. For sections these are the registry's ids, because Festi's grants and
//! actions refer to Festi's ids.

use std::collections::{HashMap, HashSet};

use crate::festi::database::{FestiRows, is_protocol_method};
use crate::rows::{
    AccessRows, ActionRow, CatalogRows, GrantRow, MethodColumn, MethodRow, RoleRow, SectionRow,
    SettingRow, TypeRow, UserRow, action_key, present,
};

/// Changes of Festi's methods that are configured in a file.
#[derive(Debug, Clone, Default)]
pub struct Overlay {
    /// Changed columns by method. Unknown ids are ignored.
    pub methods: Vec<MethodRow>,
    /// Definitions of classes.
    pub types: Vec<TypeRow>,
}

/// Options of an attached Festi database.
#[derive(Debug, Clone)]
pub struct AttachOptions {
    /// Default upstream of Festi's methods.
    pub upstream: String,
    /// Whether tools have output schemas from the return types.
    pub output_schemas: bool,
    /// Changes of Festi's methods.
    pub overlay: Overlay,
}

/// Maps an id to the negative range, which no table uses.
pub(super) fn foreign(id: i64) -> i64 {
    !id
}

/// Merges methods. A row of the registry with the `rpc_method` of one of Festi's methods is an overlay.
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
    let merged = festi.into_iter().filter(|row| !is_protocol_method(&row.rpc_method)).map(|row| {
        let file = in_file.get(row.rpc_method.as_str()).copied();
        let mut row = base(row, file, options);
        if let Some(over) = overlays.get(&row.rpc_method) {
            apply_overlay(&mut row, over);
            row.id = over.id;
        }
        row
    });
    let mut merged: Vec<MethodRow> = merged.collect();
    merged.extend(others);
    merged
}

/// Returns Festi's row with defaults and the overlay of the file.
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
        // PHP declares `bool`, although the actual result is the content of a `Response`.
        row.return_type = None;
    }
    if let Some(file) = file {
        apply_overlay(&mut row, file);
    }
    row
}

/// Returns the columns that an overlay may set: all except those for permissions.
fn columns() -> impl Iterator<Item = &'static MethodColumn> {
    let is_protected = |name| matches!(name, "plugin" | "method" | "sections");
    MethodRow::COLUMNS.iter().filter(move |column| !is_protected(column.name))
}

/// Columns that an overlay with `params` always contains, because [`apply_overlay`] clears these columns in the row if
/// the overlay has `params`.
const WITH_PARAMS: [&str; 3] = ["defaults", "input_schema", "params_types"];

fn apply_overlay(row: &mut MethodRow, over: &MethodRow) {
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

/// Returns the overlay that changes `base` to `wanted`.
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

/// Returns a column that `wanted` clears. An overlay cannot clear a column.
pub(crate) fn emptied(base: &MethodRow, wanted: &MethodRow) -> Option<&'static str> {
    let is_emptied = |column: &&MethodColumn| {
        column.get(wanted).as_deref().is_some_and(|text| text.trim().is_empty())
            && present(column.get(base).as_deref()).is_some()
    };
    columns().find(is_emptied).map(|column| column.name)
}

/// Merged sections. A section that exists on both sides has Festi's row.
struct Sections {
    rows: Vec<SectionRow>,
    numbers: HashMap<i64, i64>,
    /// Sections that exist only in the registry.
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

    /// Returns the id of a registry's section after merging.
    fn number(&self, own: i64) -> i64 {
        self.numbers.get(&own).copied().unwrap_or_else(|| foreign(own))
    }

    /// Merges grants. On Festi's sections, only Festi's grants apply.
    fn grants(&self, festi: Vec<GrantRow>, own: Vec<GrantRow>) -> Vec<GrantRow> {
        let own = own.into_iter().filter(|row| self.own.contains(&row.id_section));
        let own = own.map(|row| GrantRow { id_section: self.number(row.id_section), ..row });
        festi.into_iter().chain(own).collect()
    }
}

/// Merges actions. The registry's actions apply only to the registry's methods.
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

/// Merges settings. Festi's settings take precedence.
pub(super) fn settings(festi: Vec<SettingRow>, own: Vec<SettingRow>) -> Vec<SettingRow> {
    let set: HashSet<String> = festi.iter().map(|row| row.name.clone()).collect();
    let own = own.into_iter().filter(|row| !set.contains(&row.name));
    festi.into_iter().chain(own).collect()
}

/// Merges classes. The registry's classes take precedence.
fn types(own: Vec<TypeRow>, file: &[TypeRow]) -> Vec<TypeRow> {
    let known: HashSet<String> = own.iter().map(|row| row.name.clone()).collect();
    let file = file.iter().filter(|row| !known.contains(&row.name)).cloned();
    own.into_iter().chain(file).collect()
}

/// Merges the rows of a catalog. The result has the registry's change counter.
pub(super) fn catalog(festi: FestiRows, own: CatalogRows, options: &AttachOptions) -> CatalogRows {
    let festis = festi.methods.iter().map(|row| row.rpc_method.clone()).collect();
    let sections = Sections::of(festi.sections, own.sections);
    let methods = methods(festi.methods, own.methods, options);
    CatalogRows {
        change_counter: own.change_counter,
        actions: actions(festi.actions, own.actions, &sections, &methods, &festis),
        methods,
        sections: sections.rows,
        types: types(own.types, &options.overlay.types),
        upstreams: own.upstreams,
        settings: settings(festi.settings, own.settings),
    }
}

/// Merges the rows of access. The result has the registry's change counter.
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

pub(super) fn sections(festi: Vec<SectionRow>, own: Vec<SectionRow>) -> Vec<SectionRow> {
    Sections::of(festi, own).rows
}

/// Returns users with their roles, ordered by login.
pub(super) fn users(users: Vec<UserRow>, roles: &[RoleRow]) -> Vec<UserRow> {
    let captions: HashMap<i64, &str> =
        roles.iter().map(|row| (row.id, row.caption.as_str())).collect();
    let role = |row: &UserRow| captions.get(&row.id_type?).map(|caption| (*caption).to_owned());
    let mut users: Vec<UserRow> =
        users.into_iter().map(|row| UserRow { role: role(&row), ..row }).collect();
    users.sort_by(|a, b| a.login.cmp(&b.login));
    users
}
