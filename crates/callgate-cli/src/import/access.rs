//! Who may do what, as a source has it, beside the registry: what is there is left as it is.
//!
//! Numbers of users and roles mean something only where they are the same people. So somebody is known
//! by their name, and comes under the source's number only where that is free: where nothing is left here
//! of somebody who had it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use callgate_registry::{
    AccessRows, Holder, ImportAccess, ImportGrant, RoleRow, SectionRow, TokenRow, UserRow,
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
    pub(super) fn absent(
        &self,
        rows: &AccessRows,
        tokens: &[TokenRow],
    ) -> (ImportAccess, Vec<String>) {
        let mut notes = Vec::new();
        let mut access = ImportAccess { revision: Some(rows.revision), ..ImportAccess::default() };
        let idents: HashSet<&str> = rows.sections.iter().map(|row| row.ident.as_str()).collect();
        let is_new = |row: &&SectionRow| !idents.contains(row.ident.as_str());
        access.sections = self.sections.iter().filter(is_new).cloned().collect();

        let named = rows.roles.iter().map(|row| (row.id, row.caption.as_str()));
        let roles = Known::new(named, role_numbers(rows));
        let named = self.roles.iter().map(|row| (row.id, row.caption.as_str()));
        let (roles, new) = roles.place("role", named, self.holders(false), &mut notes);
        let role = |id: &i64| self.roles.iter().find(|row| row.id == *id).cloned();
        access.roles = new.iter().filter_map(role).collect();

        let named = rows.users.iter().map(|row| (row.id, row.login.as_str()));
        let users = Known::new(named, user_numbers(rows, tokens));
        let named = self.users.iter().map(|row| (row.id, row.login.as_str()));
        let (users, new) = users.place("user", named, self.holders(true), &mut notes);
        let new: HashSet<i64> = new.into_iter().collect();
        for row in self.users.iter().filter(|row| new.contains(&row.id)) {
            let id_type = row.id_type.and_then(|id| roles.get(&id)).copied();
            access.users.push(UserRow { id_type, ..row.clone() });
        }
        access.grants = self.absent_grants(rows, &roles, &users);
        (access, notes)
    }

    /// The numbers of all users, or of all roles, who have something.
    fn holders(&self, are_users: bool) -> BTreeSet<i64> {
        let number = |grant: &ImportGrant| match grant.holder {
            Holder::User(id) => Some(id).filter(|_| are_users),
            Holder::Role(id) => Some(id).filter(|_| !are_users),
        };
        self.grants.iter().filter_map(number).collect()
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
        let of_roles = rows.role_grants.iter().map(|row| (false, row));
        let of_users = rows.user_grants.iter().map(|row| (true, row));
        let known: HashSet<(bool, i64, String)> = of_roles
            .chain(of_users)
            .filter_map(|(is_user, row)| {
                Some((is_user, row.id_holder, (*idents.get(&row.id_section)?).to_owned()))
            })
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

/// The roles that grants and users name, whether they are there or not.
fn role_numbers(rows: &AccessRows) -> HashSet<i64> {
    let grants = rows.role_grants.iter().map(|row| row.id_holder);
    grants.chain(rows.users.iter().filter_map(|row| row.id_type)).collect()
}

/// The users that grants, tokens and credentials name, whether they are there or not.
fn user_numbers(rows: &AccessRows, tokens: &[TokenRow]) -> HashSet<i64> {
    let grants = rows.user_grants.iter().map(|row| row.id_holder);
    let tokens = tokens.iter().map(|row| row.id_user);
    grants.chain(tokens).chain(rows.credentials.iter().map(|row| row.id_user)).collect()
}

/// Names and numbers that are taken.
struct Known<'a> {
    by_name: HashMap<&'a str, i64>,
    by_number: HashMap<i64, &'a str>,
    /// Numbers that something here belongs to; whoever came under one would have it.
    in_use: HashSet<i64>,
}

impl<'a> Known<'a> {
    fn new(all: impl Iterator<Item = (i64, &'a str)> + Clone, in_use: HashSet<i64>) -> Self {
        Self {
            by_number: all.clone().collect(),
            by_name: all.map(|(id, name)| (name, id)).collect(),
            in_use,
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
        let mut seen = HashSet::new();
        for (id, name) in others {
            holders.remove(&id);
            let refusal = if !seen.insert(name) {
                "another of the source has this name".to_owned()
            } else if let Some(&here) = self.by_name.get(name) {
                places.entry(id).or_insert(here);
                continue;
            } else if let Some(other) = self.by_number.get(&id) {
                format!("number {id} is `{other}` here")
            } else if self.in_use.contains(&id) {
                format!("number {id} is nobody here, and something is left of it")
            } else {
                self.by_number.insert(id, name);
                places.insert(id, id);
                new.push(id);
                continue;
            };
            notes.push(format!("note: {what} `{name}` is not taken, nor what it has: {refusal}"));
        }
        // Whoever gets that number here later would have it.
        for id in holders {
            notes.push(format!(
                "note: what {what} {id} has is not taken: the source has no such {what} with a name"
            ));
        }
        (places, new)
    }
}
