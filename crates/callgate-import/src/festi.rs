//! Methods, sections, roles and users from the database of a Festi application.

use std::collections::HashSet;
use std::path::Path;

use callgate::Mask;
use callgate_registry::{
    ActionRow, DatabaseOptions, DatabaseUrl, FestiError, FestiRows, GrantHolder, GrantRow,
    ImportGrant, MethodRow, SectionRow, TableNames, action_key, is_protocol_method, read_festi,
};

use crate::hinted::hinted;
use crate::required_sections::RequiredSectionsByKey;
use crate::source::{AccessProposal, Proposal, Refusal, RequiredMask, Source};
use crate::text::counted;

/// Which users are imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Users {
    /// All users, with the grants that they have in addition to their role.
    All,
    /// No users.
    None,
}

/// Reads a database.
pub async fn read(
    url: &DatabaseUrl,
    tables: &TableNames,
    users: Users,
    upstream: &str,
) -> anyhow::Result<Source> {
    let display_url = url.to_string();
    let rows = read_festi(url, &DatabaseOptions::default(), tables).await;
    let rows = rows.map_err(|error| {
        hinted(format!("cannot read the Festi database `{display_url}`: {error}"), hint(&error))
    })?;
    if rows.missing.iter().any(|table| table == "rpc_methods") {
        return Err(hinted(
            format!("`{display_url}` has no table `rpc_methods`"),
            "use the URL of the database to which Festi's plugin Rpc writes its methods",
        ));
    }
    // With the wrong prefix, methods that are protected in Festi would be open here.
    if let Some(prefix) = &rows.other_prefix {
        return Err(hinted(
            format!("`{display_url}` has its actions in `{prefix}section_actions`"),
            format!("use `--table-prefix '{prefix}'`"),
        ));
    }
    let name = match url.path().and_then(Path::file_name) {
        Some(name) => name.to_string_lossy().into_owned(),
        None => display_url,
    };
    source(format!("Festi database `{name}`"), &rows, upstream, users)
}

fn hint(error: &FestiError) -> String {
    match error {
        FestiError::Missing { prefix: Some(prefix), .. } => {
            format!("the database has `{prefix}section_actions`: use `--table-prefix '{prefix}'`")
        }
        FestiError::Missing { prefix: None, .. } => {
            "use `GRANT SELECT` to let this user read the table; if the table \
             were left out, methods that Festi protects would be open here"
                .to_owned()
        }
        _ => "check that the URL is that of the database of a Festi application, and that this user may read the database".to_owned(),
    }
}

fn source(name: String, rows: &FestiRows, upstream: &str, users: Users) -> anyhow::Result<Source> {
    let mut source = Source::new(name, upstream);
    let by_key = RequiredSectionsByKey::new(&rows.sections, &rows.actions);
    for row in &rows.methods {
        source.add(proposal(row, &by_key, &rows.sections))?;
    }
    source.access = access(rows, users);
    source.notes = notes(rows, &source, users);
    Ok(source)
}

/// Returns `true` for a display method, whose first parameter is a `Response`. The result of such a method is the
/// content of the `Response`, not the returned value.
fn fills_response(row: &MethodRow) -> bool {
    let types = row.params_types.as_deref().map(serde_json::from_str::<Vec<Option<String>>>);
    let first = types.and_then(Result::ok).and_then(|types| types.into_iter().next().flatten());
    let class = first.as_deref().map(|name| name.trim_matches(['?', '&', ' ']));
    class.and_then(|name| name.rsplit('\\').next()) == Some("Response")
}

fn proposal(
    row: &MethodRow,
    by_key: &RequiredSectionsByKey,
    sections: &[SectionRow],
) -> Result<Proposal, Refusal> {
    let id = row.rpc_method.trim();
    if id.is_empty() {
        return Err(Refusal::new(format!("rpc_methods row {}", row.id), "it has no `rpc_method`"));
    }
    if is_protocol_method(id) {
        return Err(Refusal::new(id, "the name is reserved for MCP"));
    }
    let safety = row.safety.as_deref().and_then(|safety| safety.trim().parse().ok());
    let is_hidden = row.exposed.as_deref().is_some_and(|exposed| exposed.trim() == "0");
    let proposed = MethodRow {
        id: 0,
        rpc_method: id.to_owned(),
        sections: None,
        return_type: row.return_type.clone().filter(|_| !fills_response(row)),
        upstream: None,
        ..row.clone()
    };
    Ok(Proposal {
        needs: needs(row, by_key, sections)?,
        hidden: is_hidden.then_some("not exposed in the database"),
        ..Proposal::new(proposed, safety)
    })
}

/// Returns the sections and masks that a caller needs to call the method. Returns `None` if neither an action nor the
/// method's row names a section.
fn needs(
    row: &MethodRow,
    by_key: &RequiredSectionsByKey,
    sections: &[SectionRow],
) -> Result<Option<Vec<(String, RequiredMask)>>, Refusal> {
    row.section_names().map_err(|error| Refusal::new(&row.rpc_method, error.to_string()))?;
    let required = |(ident, mask): (String, String)| {
        let mask = mask.trim().parse().ok().and_then(Mask::required);
        // A section that does not exist cannot be granted. A section without an action is not checked by Festi; here it
        // closes the method.
        let mask = mask.filter(|_| sections.iter().any(|section| section.ident == ident));
        (ident, mask.map_or(RequiredMask::Closed, RequiredMask::Mask))
    };
    let needs: Vec<(String, RequiredMask)> = by_key.of(row).into_iter().map(required).collect();
    Ok((!needs.is_empty()).then_some(needs))
}

fn access(rows: &FestiRows, users: Users) -> AccessProposal {
    let grant = |row: &GrantRow, holder: GrantHolder| {
        let section = rows.sections.iter().find(|section| section.id == row.id_section)?;
        let value = row.value.trim().parse().unwrap_or_default();
        Some(ImportGrant { holder, section: section.ident.clone(), value })
    };
    let mut access = AccessProposal {
        sections: rows.sections.iter().filter(|row| !row.ident.is_empty()).cloned().collect(),
        roles: rows.roles.iter().filter(|row| !row.caption.is_empty()).cloned().collect(),
        ..AccessProposal::default()
    };
    let of_roles = rows.role_grants.iter();
    access.grants =
        of_roles.filter_map(|row| grant(row, GrantHolder::Role(row.id_holder))).collect();
    if users == Users::All {
        access.users = rows.users.iter().filter(|row| !row.login.is_empty()).cloned().collect();
        let of_users = rows.user_grants.iter();
        access
            .grants
            .extend(of_users.filter_map(|row| grant(row, GrantHolder::User(row.id_holder))));
    }
    access
}

/// Returns notes about differences from Festi and about data that is not imported.
fn notes(rows: &FestiRows, source: &Source, users: Users) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |count: usize, noun: &str, text: &str| {
        if count > 0 {
            notes.push(format!("note: {} {text}", counted(count, noun)));
        }
    };
    if !rows.missing.is_empty() {
        let missing = rows.missing.join("`, `");
        note(rows.missing.len(), "table", &format!("not found: `{missing}`"));
    }
    let needs = || source.methods.iter().map(|method| method.needs.as_deref().unwrap_or_default());
    let closed = needs()
        .filter(|needs| needs.iter().any(|(_, required)| *required == RequiredMask::Closed))
        .count();
    note(
        closed,
        "method",
        "with a section that has no action: in Festi everybody can call such a method, in Callgate nobody can",
    );
    let open = needs().filter(|needs| needs.is_empty()).count();
    note(
        open,
        "method",
        "in no section: in Festi every caller can call such a method, in Callgate `open_methods` decides",
    );
    let in_several_sections = needs().filter(|needs| needs.len() > 1).count();
    note(
        in_several_sections,
        "method",
        "in several sections: Festi checks only the last one, Callgate checks all",
    );
    let method_keys: HashSet<(String, String)> =
        rows.methods.iter().map(MethodRow::action_key).collect();
    let is_unused = |row: &&ActionRow| !method_keys.contains(&action_key(&row.plugin, &row.method));
    note(rows.actions.iter().filter(is_unused).count(), "action", "of no method: not imported");
    if users == Users::All {
        let zero = rows.user_grants.iter().filter(|row| row.value.trim() == "0").count();
        note(
            zero,
            "grant",
            "of 0 to a user: in Festi the role of the user decides, in Callgate access is denied",
        );
    } else {
        note(rows.users.len(), "user", "not imported; use `--users` to import users");
        note(
            rows.user_grants.len(),
            "grant",
            "of single users not imported; use `--users` to import grants of users",
        );
    }
    notes
}
