//! Sections, roles, users and grants of a source that the registry does not have. Existing ones are not
//! changed.
//!
//! A user or role is identified by its name. Its id in the source is used here only if nothing in the
//! registry refers to that id: a new user must not inherit the grants and tokens of a deleted one.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use callgate_registry::{
    AccessRows, Holder, ImportAccess, ImportGrant, SectionRow, TokenRow, UserRow,
};

use crate::source::AccessProposal;

/// Returns what to add, and notes about what is left out.
pub(super) fn missing(
    proposal: &AccessProposal,
    rows: &AccessRows,
    tokens: &[TokenRow],
) -> (ImportAccess, Vec<String>) {
    let mut notes = Vec::new();
    let mut access = ImportAccess { revision: Some(rows.revision), ..ImportAccess::default() };
    let idents: HashSet<&str> = rows.sections.iter().map(|row| row.ident.as_str()).collect();
    let is_new = |row: &&SectionRow| !idents.contains(row.ident.as_str());
    access.sections = proposal.sections.iter().filter(is_new).cloned().collect();

    let named = rows.roles.iter().map(|row| (row.id, row.caption.as_str()));
    let roles = Known::new(named, referenced_roles(rows));
    let named = proposal.roles.iter().map(|row| (row.id, row.caption.as_str()));
    let (roles, new) = roles.assign("role", named, holders(proposal, false), &mut notes);
    let role = |id: &i64| proposal.roles.iter().find(|row| row.id == *id).cloned();
    access.roles = new.iter().filter_map(role).collect();

    let named = rows.users.iter().map(|row| (row.id, row.login.as_str()));
    let users = Known::new(named, referenced_users(rows, tokens));
    let named = proposal.users.iter().map(|row| (row.id, row.login.as_str()));
    let (users, new) = users.assign("user", named, holders(proposal, true), &mut notes);
    let new: HashSet<i64> = new.into_iter().collect();
    for row in proposal.users.iter().filter(|row| new.contains(&row.id)) {
        let id_type = row.id_type.and_then(|id| roles.get(&id)).copied();
        access.users.push(UserRow { id_type, ..row.clone() });
    }
    access.grants = missing_grants(proposal, rows, &roles, &users);
    (access, notes)
}

/// Returns the ids of all users, or of all roles, that have grants.
fn holders(proposal: &AccessProposal, are_users: bool) -> BTreeSet<i64> {
    let id = |grant: &ImportGrant| match grant.holder {
        Holder::User(id) => Some(id).filter(|_| are_users),
        Holder::Role(id) => Some(id).filter(|_| !are_users),
    };
    proposal.grants.iter().filter_map(id).collect()
}

/// Returns the grants on sections that a holder has no grant on. Of several for one section, the lowest.
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
    let known: HashSet<(bool, i64, String)> = of_roles
        .chain(of_users)
        .filter_map(|(is_user, row)| {
            Some((is_user, row.id_holder, (*idents.get(&row.id_section)?).to_owned()))
        })
        .collect();
    let mut lowest: BTreeMap<(bool, i64, String), i64> = BTreeMap::new();
    for grant in &proposal.grants {
        let (is_user, id) = match grant.holder {
            Holder::Role(id) => (false, roles.get(&id)),
            Holder::User(id) => (true, users.get(&id)),
        };
        let Some(&id) = id else { continue };
        let key = (is_user, id, grant.section.clone());
        if !known.contains(&key) {
            let value = lowest.entry(key).or_insert(grant.value);
            *value = grant.value.min(*value);
        }
    }
    let grant = |((is_user, id, section), value)| {
        let holder = if is_user { Holder::User(id) } else { Holder::Role(id) };
        ImportGrant { holder, section, value }
    };
    lowest.into_iter().map(grant).collect()
}

/// Returns the ids of roles that grants and users refer to, whether the roles exist or not.
fn referenced_roles(rows: &AccessRows) -> HashSet<i64> {
    let grants = rows.role_grants.iter().map(|row| row.id_holder);
    grants.chain(rows.users.iter().filter_map(|row| row.id_type)).collect()
}

/// Returns the ids of users that grants, tokens and credentials refer to, whether the users exist or not.
fn referenced_users(rows: &AccessRows, tokens: &[TokenRow]) -> HashSet<i64> {
    let grants = rows.user_grants.iter().map(|row| row.id_holder);
    let tokens = tokens.iter().map(|row| row.id_user);
    grants.chain(tokens).chain(rows.credentials.iter().map(|row| row.id_user)).collect()
}

/// Users or roles of the registry.
struct Known<'a> {
    by_name: HashMap<&'a str, i64>,
    by_id: HashMap<i64, &'a str>,
    /// Ids that other rows refer to. A new user under one of them would inherit those rows.
    referenced: HashSet<i64>,
}

impl<'a> Known<'a> {
    fn new(all: impl Iterator<Item = (i64, &'a str)> + Clone, referenced: HashSet<i64>) -> Self {
        Self {
            by_id: all.clone().collect(),
            by_name: all.map(|(id, name)| (name, id)).collect(),
            referenced,
        }
    }

    /// Returns the registry's id for each id of the source, and the ids that are new.
    fn assign(
        mut self,
        what: &str,
        others: impl Iterator<Item = (i64, &'a str)>,
        mut holders: BTreeSet<i64>,
        notes: &mut Vec<String>,
    ) -> (HashMap<i64, i64>, Vec<i64>) {
        let (mut ids, mut new) = (HashMap::new(), Vec::new());
        let mut seen = HashSet::new();
        for (id, name) in others {
            holders.remove(&id);
            let refusal = if !seen.insert(name) {
                "the source has another one of this name".to_owned()
            } else if let Some(&here) = self.by_name.get(name) {
                ids.entry(id).or_insert(here);
                continue;
            } else if let Some(other) = self.by_id.get(&id) {
                format!("id {id} is `{other}` here")
            } else if self.referenced.contains(&id) {
                format!("id {id} does not exist here, but other rows refer to it")
            } else {
                self.by_id.insert(id, name);
                ids.insert(id, id);
                new.push(id);
                continue;
            };
            notes.push(format!("note: {what} `{name}` and its grants are not imported: {refusal}"));
        }
        // A later user with that id would inherit the grants.
        for id in holders {
            notes.push(format!(
                "note: the grants of {what} {id} are not imported: the source has no {what} with this \
                 id and a name"
            ));
        }
        (ids, new)
    }
}
