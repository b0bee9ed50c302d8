//! Sections, roles, users and grants of a source that the registry does not have. Existing ones are not changed.
//!
//! A user or role is identified by its name. A new user or role is added with its id in the source. If something in the
//! registry refers to that id, the user or role is not added, because it would inherit grants and tokens of a deleted
//! user or role.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use callgate_registry::{AccessRows, GrantHolder, ImportAccess, ImportGrant, TokenRow, UserRow};

use crate::source::AccessProposal;

/// Returns the rows to add, and notes about rows that are left out.
pub(super) fn missing(
    proposal: &AccessProposal,
    rows: &AccessRows,
    tokens: &[TokenRow],
) -> (ImportAccess, Vec<String>) {
    let mut notes = Vec::new();
    let existing: HashSet<&str> = rows.sections.iter().map(|row| row.ident.as_str()).collect();
    let sections = proposal.sections.iter().filter(|row| !existing.contains(row.ident.as_str()));

    let names = rows.roles.iter().map(|row| (row.id, row.caption.as_str()));
    let referenced = rows.role_grants.iter().map(|row| row.id_holder);
    let referenced = referenced.chain(rows.users.iter().filter_map(|row| row.id_type));
    let existing = ExistingHolders::new("role", names, referenced.collect());
    let names = proposal.roles.iter().map(|row| (row.id, row.caption.as_str()));
    let (roles, new_roles) = existing.assign(names, holder_ids(proposal, role_id), &mut notes);

    let names = rows.users.iter().map(|row| (row.id, row.login.as_str()));
    let referenced = rows.user_grants.iter().map(|row| row.id_holder);
    let referenced = referenced.chain(tokens.iter().map(|row| row.id_user));
    let referenced = referenced.chain(rows.credentials.iter().map(|row| row.id_user));
    let existing = ExistingHolders::new("user", names, referenced.collect());
    let names = proposal.users.iter().map(|row| (row.id, row.login.as_str()));
    let (users, new_users) = existing.assign(names, holder_ids(proposal, user_id), &mut notes);

    let user = |row: &UserRow| {
        let id_type = row.id_type.and_then(|id| roles.get(&id)).copied();
        UserRow { id_type, ..row.clone() }
    };
    let access = ImportAccess {
        change_counter: Some(rows.change_counter),
        sections: sections.cloned().collect(),
        roles: proposal.roles.iter().filter(|row| new_roles.contains(&row.id)).cloned().collect(),
        users: proposal.users.iter().filter(|row| new_users.contains(&row.id)).map(user).collect(),
        grants: missing_grants(proposal, rows, &roles, &users),
    };
    (access, notes)
}

fn user_id(holder: GrantHolder) -> Option<i64> {
    if let GrantHolder::User(id) = holder { Some(id) } else { None }
}

fn role_id(holder: GrantHolder) -> Option<i64> {
    if let GrantHolder::Role(id) = holder { Some(id) } else { None }
}

fn holder_ids(proposal: &AccessProposal, id: impl Fn(GrantHolder) -> Option<i64>) -> BTreeSet<i64> {
    proposal.grants.iter().filter_map(|grant| id(grant.holder)).collect()
}

/// Returns the grants of the source, except those on a section on which the user or role already has a grant. If
/// the source has several grants of a user or role on one section, returns the lowest.
fn missing_grants(
    proposal: &AccessProposal,
    rows: &AccessRows,
    roles: &HashMap<i64, i64>,
    users: &HashMap<i64, i64>,
) -> Vec<ImportGrant> {
    let idents: HashMap<i64, &str> =
        rows.sections.iter().map(|row| (row.id, row.ident.as_str())).collect();
    let of_roles = rows.role_grants.iter().map(|row| (false, row));
    let of_users = rows.user_grants.iter().map(|row| (true, row));
    let existing: HashSet<(bool, i64, &str)> = of_roles
        .chain(of_users)
        .filter_map(|(is_user, row)| Some((is_user, row.id_holder, *idents.get(&row.id_section)?)))
        .collect();
    let mut lowest: BTreeMap<(bool, i64, &str), i64> = BTreeMap::new();
    for grant in &proposal.grants {
        let (is_user, id) = match grant.holder {
            GrantHolder::Role(id) => (false, roles.get(&id)),
            GrantHolder::User(id) => (true, users.get(&id)),
        };
        let Some(&id) = id else { continue };
        let key = (is_user, id, grant.section.as_str());
        if !existing.contains(&key) {
            let value = lowest.entry(key).or_insert(grant.value);
            *value = grant.value.min(*value);
        }
    }
    let grant = |((is_user, id, section), value): ((bool, i64, &str), i64)| {
        let holder = if is_user { GrantHolder::User(id) } else { GrantHolder::Role(id) };
        ImportGrant { holder, section: section.to_owned(), value }
    };
    lowest.into_iter().map(grant).collect()
}

/// Users or roles of the registry.
struct ExistingHolders<'a> {
    kind: &'static str,
    by_name: HashMap<&'a str, i64>,
    by_id: HashMap<i64, &'a str>,
    /// Ids that other rows refer to. A new user with such an id would inherit those rows.
    referenced: HashSet<i64>,
}

impl<'a> ExistingHolders<'a> {
    fn new(
        kind: &'static str,
        all: impl Iterator<Item = (i64, &'a str)> + Clone,
        referenced: HashSet<i64>,
    ) -> Self {
        let by_name = all.clone().map(|(id, name)| (name, id)).collect();
        Self { kind, by_name, by_id: all.collect(), referenced }
    }

    /// Returns the registry's id for each id of the source, and the ids that are new.
    fn assign(
        mut self,
        proposed: impl Iterator<Item = (i64, &'a str)>,
        mut holder_ids: BTreeSet<i64>,
        notes: &mut Vec<String>,
    ) -> (HashMap<i64, i64>, HashSet<i64>) {
        let (mut ids, mut new) = (HashMap::new(), HashSet::new());
        let (kind, mut names) = (self.kind, HashSet::new());
        for (id, name) in proposed {
            holder_ids.remove(&id);
            let reason = if !names.insert(name) {
                "the source contains this name twice".to_owned()
            } else if let Some(&existing_id) = self.by_name.get(name) {
                ids.entry(id).or_insert(existing_id);
                continue;
            } else if let Some(other) = self.by_id.get(&id) {
                format!("in the registry, id {id} is `{other}`")
            } else if self.referenced.contains(&id) {
                format!("in the registry, id {id} does not exist, but other rows refer to it")
            } else {
                self.by_id.insert(id, name);
                ids.insert(id, id);
                new.insert(id);
                continue;
            };
            notes.push(format!("note: {kind} `{name}` and its grants are not imported: {reason}"));
        }
        // A later user with this id would inherit the grants.
        for id in holder_ids {
            notes.push(format!(
                "note: the grants of {kind} {id} are not imported: in the source, this {kind} does not \
                 exist or has no name"
            ));
        }
        (ids, new)
    }
}
