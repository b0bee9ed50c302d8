//! Who may do what, as a source has it, beside the registry: what is there is left as it is.
//!
//! Numbers of users and roles mean something only where they are the same people. So somebody is known
//! by their name, and comes under the source's number only where that is free.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use callgate_registry::{
    AccessRows, Holder, ImportAccess, ImportGrant, RoleRow, SectionRow, UserRow,
};

/// What a source says of who may do what.
#[derive(Debug, Default)]
pub(crate) struct AccessProposal {
    pub(crate) sections: Vec<SectionRow>,
    pub(crate) roles: Vec<RoleRow>,
    pub(crate) users: Vec<UserRow>,
    /// By the source's own numbers: who has how much on which section.
    pub(crate) grants: Vec<ImportGrant>,
}

impl AccessProposal {
    pub(crate) fn is_empty(&self) -> bool {
        self.sections.is_empty() && self.roles.is_empty() && self.grants.is_empty()
    }

    /// What of it the registry does not have, and what cannot be taken.
    pub(super) fn absent(&self, rows: &AccessRows) -> (ImportAccess, Vec<String>) {
        let mut notes = Vec::new();
        let mut access = ImportAccess { revision: Some(rows.revision), ..ImportAccess::default() };
        let idents: HashSet<&str> = rows.sections.iter().map(|row| row.ident.as_str()).collect();
        let is_new = |row: &&SectionRow| !idents.contains(row.ident.as_str());
        access.sections = self.sections.iter().filter(is_new).cloned().collect();

        let roles = Known::new(rows.roles.iter().map(|row| (row.id, row.caption.as_str())));
        let named = self.roles.iter().map(|row| (row.id, row.caption.as_str()));
        let (roles, new) = roles.place("role", named, self.holders(role_number), &mut notes);
        let role = |id: &i64| self.roles.iter().find(|row| row.id == *id).cloned();
        access.roles = new.iter().filter_map(role).collect();

        let users = Known::new(rows.users.iter().map(|row| (row.id, row.login.as_str())));
        let named = self.users.iter().map(|row| (row.id, row.login.as_str()));
        let (users, new) = users.place("user", named, self.holders(user_number), &mut notes);
        let new: HashSet<i64> = new.into_iter().collect();
        for row in self.users.iter().filter(|row| new.contains(&row.id)) {
            let id_type = row.id_type.and_then(|id| roles.get(&id)).copied();
            access.users.push(UserRow { id_type, ..row.clone() });
        }
        access.grants = self.absent_grants(rows, &roles, &users);
        (access, notes)
    }

    /// The numbers of all who have something.
    fn holders(&self, number: fn(Holder) -> Option<i64>) -> BTreeSet<i64> {
        self.grants.iter().filter_map(|grant| number(grant.holder)).collect()
    }

    /// Those that nothing is said of; of several for one, the lowest.
    fn absent_grants(
        &self,
        rows: &AccessRows,
        roles: &HashMap<i64, i64>,
        users: &HashMap<i64, i64>,
    ) -> Vec<ImportGrant> {
        let idents: HashMap<i64, &str> =
            rows.sections.iter().map(|row| (row.id, row.ident.as_str())).collect();
        let ident = |id: &i64| idents.get(id).copied();
        let role = |row: &callgate_registry::GrantRow| {
            Some((false, row.id_holder, ident(&row.id_section)?.to_owned()))
        };
        let user = |row: &callgate_registry::GrantRow| {
            Some((true, row.id_holder, ident(&row.id_section)?.to_owned()))
        };
        let known: HashSet<(bool, i64, String)> = rows
            .role_grants
            .iter()
            .filter_map(role)
            .chain(rows.user_grants.iter().filter_map(user))
            .collect();
        let mut lowest: BTreeMap<(bool, i64, String), i64> = BTreeMap::new();
        for grant in &self.grants {
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
}

fn role_number(holder: Holder) -> Option<i64> {
    if let Holder::Role(id) = holder { Some(id) } else { None }
}

fn user_number(holder: Holder) -> Option<i64> {
    if let Holder::User(id) = holder { Some(id) } else { None }
}

/// Names and numbers that are taken.
struct Known<'a> {
    by_name: HashMap<&'a str, i64>,
    by_number: HashMap<i64, &'a str>,
}

impl<'a> Known<'a> {
    fn new(all: impl Iterator<Item = (i64, &'a str)> + Clone) -> Self {
        Self {
            by_number: all.clone().collect(),
            by_name: all.map(|(id, name)| (name, id)).collect(),
        }
    }

    /// The number here of each number there, and the numbers that are new.
    fn place(
        mut self,
        what: &str,
        others: impl Iterator<Item = (i64, &'a str)>,
        mut holders: BTreeSet<i64>,
        notes: &mut Vec<String>,
    ) -> (HashMap<i64, i64>, Vec<i64>) {
        let (mut places, mut new) = (HashMap::new(), Vec::new());
        for (id, name) in others {
            holders.remove(&id);
            match (self.by_name.get(name), self.by_number.get(&id)) {
                (Some(&here), _) => {
                    places.entry(id).or_insert(here);
                }
                (None, Some(other)) => notes.push(format!(
                    "note: {what} `{name}` is not taken, nor what it has: number {id} is `{other}` here"
                )),
                (None, None) => {
                    self.by_name.insert(name, id);
                    self.by_number.insert(id, name);
                    places.insert(id, id);
                    new.push(id);
                }
            }
        }
        // Those that have something and no name; their number is all that is known of them.
        for id in holders {
            match self.by_number.get(&id) {
                None => {
                    places.insert(id, id);
                }
                Some(other) => notes.push(format!(
                    "note: what {what} {id} has is not taken: it has no name, and is `{other}` here"
                )),
            }
        }
        (places, new)
    }
}
