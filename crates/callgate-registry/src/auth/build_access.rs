//! Builds the access of all users from rows. `Grants` in the library decides which of several grants applies.

use std::collections::HashMap;
use std::sync::Arc;

use callgate::access::{Access, Grants, Mask, Section, User};

use crate::rows::{AccessRows, GrantRow};

/// Caption of the role whose grants apply to callers without a token.
const ANONYMOUS: &str = "anonymous";

/// Builds the access snapshot.
pub fn access(rows: &AccessRows) -> Access {
    let idents: HashMap<i64, Section> =
        rows.sections.iter().map(|row| (row.id, Section::from(row.ident.as_str()))).collect();
    let by_user = by_holder(&rows.user_grants);
    let by_role = by_holder(&rows.role_grants);
    let grants_of = |user: Option<i64>, role: Option<i64>| {
        let mut grants = Grants::default();
        for (section, mask) in resolve(&by_role, role, &idents) {
            grants.add_role(section, mask);
        }
        for (section, mask) in resolve(&by_user, user, &idents) {
            grants.add_user(section, mask);
        }
        grants
    };
    // Users without rows of their own share the grants of their role.
    let mut shared: HashMap<Option<i64>, Arc<Grants>> = HashMap::new();
    let users = rows.users.iter().map(|row| {
        let user = User { id: row.id, name: row.login.clone(), role: row.role.clone() };
        let users_grants = |user| {
            let mut grants = grants_of(user, row.id_type);
            grants.add_authenticated();
            Arc::new(grants)
        };
        let grants = if by_user.contains_key(&row.id) {
            users_grants(Some(row.id))
        } else {
            Arc::clone(shared.entry(row.id_type).or_insert_with(|| users_grants(None)))
        };
        (user, grants)
    });
    let anonymous = rows.roles.iter().find(|role| role.caption.eq_ignore_ascii_case(ANONYMOUS));
    let anonymous = anonymous.map_or_else(Grants::default, |role| grants_of(None, Some(role.id)));
    Access::new(users, anonymous)
}

fn by_holder(rows: &[GrantRow]) -> HashMap<i64, Vec<&GrantRow>> {
    let mut holders: HashMap<i64, Vec<&GrantRow>> = HashMap::new();
    for row in rows {
        holders.entry(row.id_holder).or_default().push(row);
    }
    holders
}

fn resolve<'a>(
    holders: &'a HashMap<i64, Vec<&'a GrantRow>>,
    holder: Option<i64>,
    idents: &'a HashMap<i64, Section>,
) -> impl Iterator<Item = (Section, Mask)> + 'a {
    let rows = holder.and_then(|holder| holders.get(&holder));
    rows.into_iter().flatten().filter_map(|row| {
        // A mask that is not a number grants nothing.
        let value = row.value.trim().parse().unwrap_or(0);
        Some((idents.get(&row.id_section)?.clone(), Mask::granted(value)))
    })
}
