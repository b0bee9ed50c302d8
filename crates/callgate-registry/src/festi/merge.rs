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
    SettingRow, TypeRow, UserRow, action_key, non_empty,
};

/// Changes of Festi's methods that are configured in a file.
#[derive(Debug, Clone, Default)]
pub struct Overlay {
    /// A row for each changed method, with the changed columns. Rows with unknown ids are ignored.
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
pub(super) fn negative_id(id: i64) -> i64 {
    !id
}

/// Merges methods. A row of the registry with the `rpc_method` of one of Festi's methods is an overlay.
pub(super) fn methods(
    festi: Vec<MethodRow>,
    registry: Vec<MethodRow>,
    options: &AttachOptions,
) -> Vec<MethodRow> {
    let file_overlays: HashMap<&str, &MethodRow> =
        options.overlay.methods.iter().map(|row| (row.rpc_method.as_str(), row)).collect();
    let mut overlays: HashMap<String, MethodRow> = HashMap::new();
    let festi_ids: HashSet<String> = festi.iter().map(|row| row.rpc_method.clone()).collect();
    let mut others = Vec::new();
    for row in registry {
        if festi_ids.contains(&row.rpc_method) {
            overlays.entry(row.rpc_method.clone()).or_insert(row);
        } else {
            others.push(row);
        }
    }
    let merged = festi.into_iter().filter(|row| !is_protocol_method(&row.rpc_method)).map(|row| {
        let file = file_overlays.get(row.rpc_method.as_str()).copied();
        let mut row = base(row, file, options);
        if let Some(overlay) = overlays.get(&row.rpc_method) {
            apply_overlay(&mut row, overlay);
            row.id = overlay.id;
        }
        row
    });
    let mut merged: Vec<MethodRow> = merged.collect();
    merged.extend(others);
    merged
}

/// Returns Festi's row of a method, completed with defaults and changed by the overlay of the file.
pub(super) fn base(
    festi: MethodRow,
    file: Option<&MethodRow>,
    options: &AttachOptions,
) -> MethodRow {
    let mut row = MethodRow { id: negative_id(festi.id), ..festi };
    if non_empty(row.upstream.as_deref()).is_none() {
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

fn apply_overlay(row: &mut MethodRow, overlay: &MethodRow) {
    if non_empty(overlay.params.as_deref()).is_some() {
        (row.params_types, row.defaults, row.input_schema) = (None, None, None);
    }
    for column in columns() {
        if non_empty(column.get(overlay).as_deref()).is_some() {
            column.get_mut(row).clone_from(column.get(overlay));
        }
    }
    row.unreadable = row.unreadable.take().or_else(|| overlay.unreadable.clone());
}

/// Returns the overlay that changes `base` to `target`.
pub(crate) fn difference(base: &MethodRow, target: &MethodRow) -> MethodRow {
    let mut difference =
        MethodRow { id: target.id, rpc_method: target.rpc_method.clone(), ..MethodRow::default() };
    let has_params = non_empty(target.params.as_deref()).is_some() && target.params != base.params;
    for column in columns() {
        let value = column.get(target);
        if value != column.get(base) || has_params && WITH_PARAMS.contains(&column.name) {
            column.get_mut(&mut difference).clone_from(value);
        }
    }
    difference
}

/// Returns a column that `target` clears. An overlay cannot clear a column.
pub(crate) fn cleared_column(base: &MethodRow, target: &MethodRow) -> Option<&'static str> {
    let is_cleared = |column: &&MethodColumn| {
        column.get(target).as_deref().is_some_and(|text| text.trim().is_empty())
            && non_empty(column.get(base).as_deref()).is_some()
    };
    columns().find(is_cleared).map(|column| column.name)
}

/// Merged sections. A section that exists on both sides has Festi's row.
struct Sections {
    rows: Vec<SectionRow>,
    merged_ids: HashMap<i64, i64>,
    /// Sections that exist only in the registry.
    registry_only: HashSet<i64>,
}

impl Sections {
    fn of(festi: Vec<SectionRow>, registry: Vec<SectionRow>) -> Self {
        let idents: HashMap<String, i64> =
            festi.iter().map(|row| (row.ident.clone(), row.id)).collect();
        let mut sections =
            Self { rows: festi, merged_ids: HashMap::new(), registry_only: HashSet::new() };
        for row in registry {
            if let Some(id) = idents.get(&row.ident) {
                sections.merged_ids.insert(row.id, *id);
            } else {
                sections.merged_ids.insert(row.id, negative_id(row.id));
                sections.registry_only.insert(row.id);
                sections.rows.push(SectionRow { id: negative_id(row.id), ..row });
            }
        }
        sections.rows.sort_by(|a, b| a.ident.cmp(&b.ident));
        sections
    }

    /// Returns the id of a registry's section after merging.
    fn merged_id(&self, id: i64) -> i64 {
        self.merged_ids.get(&id).copied().unwrap_or_else(|| negative_id(id))
    }

    /// Merges grants. On Festi's sections, only Festi's grants apply.
    fn grants(&self, festi: Vec<GrantRow>, registry: Vec<GrantRow>) -> Vec<GrantRow> {
        let registry =
            registry.into_iter().filter(|row| self.registry_only.contains(&row.id_section));
        let registry =
            registry.map(|row| GrantRow { id_section: self.merged_id(row.id_section), ..row });
        festi.into_iter().chain(registry).collect()
    }
}

/// Merges actions. The registry's actions apply only to the registry's methods.
fn actions(
    festi: Vec<ActionRow>,
    registry: Vec<ActionRow>,
    sections: &Sections,
    methods: &[MethodRow],
    festi_ids: &HashSet<String>,
) -> Vec<ActionRow> {
    let (festi_keys, registry_keys): (Vec<_>, Vec<_>) =
        methods.iter().partition(|row| festi_ids.contains(&row.rpc_method));
    let registry_keys: HashSet<_> = registry_keys.into_iter().map(MethodRow::action_key).collect();
    let festi_keys: HashSet<_> = festi_keys.into_iter().map(MethodRow::action_key).collect();
    let applies = |row: &ActionRow| {
        let key = action_key(&row.plugin, &row.method);
        registry_keys.contains(&key) || !festi_keys.contains(&key)
    };
    let registry = registry.into_iter().filter(applies);
    let registry =
        registry.map(|row| ActionRow { id_section: sections.merged_id(row.id_section), ..row });
    festi.into_iter().chain(registry).collect()
}

/// Merges settings. Festi's settings take precedence.
pub(super) fn settings(festi: Vec<SettingRow>, registry: Vec<SettingRow>) -> Vec<SettingRow> {
    let names: HashSet<String> = festi.iter().map(|row| row.name.clone()).collect();
    let registry = registry.into_iter().filter(|row| !names.contains(&row.name));
    festi.into_iter().chain(registry).collect()
}

/// Merges classes. The registry's classes take precedence over those of the overlay in the file.
fn types(registry: Vec<TypeRow>, file: &[TypeRow]) -> Vec<TypeRow> {
    let names: HashSet<String> = registry.iter().map(|row| row.name.clone()).collect();
    let file = file.iter().filter(|row| !names.contains(&row.name)).cloned();
    registry.into_iter().chain(file).collect()
}

/// Merges the rows of a catalog. The result has the registry's change counter.
pub(super) fn catalog(
    festi: FestiRows,
    registry: CatalogRows,
    options: &AttachOptions,
) -> CatalogRows {
    let festi_ids = festi.methods.iter().map(|row| row.rpc_method.clone()).collect();
    let sections = Sections::of(festi.sections, registry.sections);
    let methods = methods(festi.methods, registry.methods, options);
    CatalogRows {
        change_counter: registry.change_counter,
        actions: actions(festi.actions, registry.actions, &sections, &methods, &festi_ids),
        methods,
        sections: sections.rows,
        types: types(registry.types, &options.overlay.types),
        upstreams: registry.upstreams,
        settings: settings(festi.settings, registry.settings),
    }
}

/// Merges the rows of access. The result has the registry's change counter.
pub(super) fn access(festi: FestiRows, registry: AccessRows) -> AccessRows {
    let sections = Sections::of(festi.sections, registry.sections);
    AccessRows {
        users: users(festi.users, &festi.roles),
        roles: festi.roles,
        user_grants: sections.grants(festi.user_grants, registry.user_grants),
        role_grants: sections.grants(festi.role_grants, registry.role_grants),
        sections: sections.rows,
        settings: settings(festi.settings, registry.settings),
        ..registry
    }
}

pub(super) fn sections(festi: Vec<SectionRow>, registry: Vec<SectionRow>) -> Vec<SectionRow> {
    Sections::of(festi, registry).rows
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
