//! Finds rows that refer to missing rows. Like Festi's tables, the registry's tables have no foreign keys.

use std::collections::HashSet;

use callgate_registry::{AccessRows, CatalogRows, GrantRow, TokenRow};

use crate::config::Config;

/// Returns a message for each row that refers to a missing row.
pub(super) fn find(
    config: &Config,
    rows: &CatalogRows,
    access: &AccessRows,
    tokens: &[TokenRow],
) -> Vec<String> {
    let users: HashSet<i64> = access.users.iter().map(|user| user.id).collect();
    let roles: HashSet<i64> = access.roles.iter().map(|role| role.id).collect();
    let sections: HashSet<i64> = rows.sections.iter().map(|section| section.id).collect();
    let mut messages = Vec::new();
    let mut grants = |kind: &str, holders: &HashSet<i64>, grants: &[GrantRow]| {
        for grant in grants {
            let (holder, section) = (grant.id_holder, grant.id_section);
            if !holders.contains(&holder) {
                messages.push(format!("a grant is for {kind} {holder}, which does not exist"));
            }
            if !sections.contains(&section) {
                messages.push(format!(
                    "{kind} {holder} has a grant on section {section}, which does not exist"
                ));
            }
        }
    };
    grants("user", &users, &access.user_grants);
    grants("role", &roles, &access.role_grants);
    for user in &access.users {
        if let Some(role) = user.id_type.filter(|role| !roles.contains(role)) {
            messages.push(format!("user `{}` has role {role}, which does not exist", user.login));
        }
    }
    for token in tokens.iter().filter(|token| !users.contains(&token.id_user)) {
        messages.push(format!(
            "token {} is for user {}, which does not exist; `callgate token remove {0}` removes it",
            token.id, token.id_user
        ));
    }
    let from_registry = rows.upstreams.iter().map(|row| row.name.as_str());
    let upstreams: HashSet<&str> = config.upstreams.names().chain(from_registry).collect();
    for credential in &access.credentials {
        let (user, upstream) = (credential.id_user, credential.upstream.as_str());
        let Some(login) = credential.login.as_deref() else {
            messages.push(format!(
                "a credential for `{upstream}` is for user {user}, which does not exist"
            ));
            continue;
        };
        if !upstreams.contains(upstream) {
            messages.push(format!(
                "user `{login}` has a credential for upstream `{upstream}`, which does not exist; \
                 `callgate credential remove {login} {upstream}` removes it"
            ));
        }
    }
    messages.sort();
    messages.dedup();
    messages
}
