//! `callgate method add|list|show|set|remove`

mod access;

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use callgate::Mask;
use callgate::catalog::Catalog;
use callgate::model::{Finding, LOCAL};
use callgate_import::{ImportedMethod, Override, RequiredSectionsByKey, named_masks};
use callgate_registry::{
    CHECK_ARGUMENTS, CatalogRows, Entity, Inspection, MethodColumn, MethodRow, SqlStore,
    Store as _, StoreError, assemble, check, inspect, open_entries, open_methods,
};
use serde_json::{Map, Value, json};

use crate::cli::{ListArgs, MethodCommand, MethodFields};
use crate::commands::{assembly, caller_named};
use crate::config::Config;
use crate::error_hints::hinted;
use crate::{printer, registry};
use access::ExplainedDecision;

/// Note for a method that is defined in code. The registry contains only changes to such a method.
const DEFINED_IN_CODE: &str =
    "defined by the program that serves it, which may require more access than the registry shows";

pub(crate) async fn run(config: &Config, command: MethodCommand) -> Result<()> {
    let store = registry::open(config).await?;
    match command {
        MethodCommand::Add { id, fields } => {
            let mut row = MethodRow { rpc_method: id.clone(), ..MethodRow::default() };
            apply(&mut row, &fields);
            row.exposed.get_or_insert_with(|| "1".to_owned());
            // Stores the key of the method's actions, so that a later change of the upstream does not change the key.
            row.plugin = Some(row.upstream_name().to_owned());
            row.method = Some(id.clone());
            check_row(&row)?;
            store.add_method(&row, &fields.sections).await?;
            printer::message(format_args!("added method `{id}`"));
            print_findings(config, &store, &id).await
        }
        MethodCommand::Set { id, fields, no_sections, reset } => {
            set(config, &store, &id, &fields, no_sections, &reset).await
        }
        MethodCommand::List(ListArgs { json }) => {
            list(config, &store.catalog_rows().await?, json);
            Ok(())
        }
        MethodCommand::Show { id, user, json } => {
            show(config, &store, &id, user.as_deref(), json).await
        }
        MethodCommand::Remove { id } => {
            let is_code = first_row(&store, &id).await?.upstream_name() == LOCAL;
            let rows = store.remove_method(&id).await?;
            let reason = if is_code {
                "the program that defines the method still serves it"
            } else if !store.methods_with_id(&id).await?.is_empty() {
                "Festi still has the method"
            } else {
                let suffix = if rows > 1 { format!(", {rows} rows") } else { String::new() };
                printer::message(format_args!("removed method `{id}`{suffix}"));
                return Ok(());
            };
            printer::message(format_args!("removed the changes to `{id}`; {reason}"));
            Ok(())
        }
    }
}

/// Changes a method, unless it already has the given properties.
async fn set(
    config: &Config,
    store: &Arc<SqlStore>,
    id: &str,
    fields: &MethodFields,
    no_sections: bool,
    reset: &[String],
) -> Result<()> {
    let before = first_row(store, id).await?;
    if before.upstream_name() == LOCAL {
        refuse_changes_to_code(id, fields, no_sections)?;
    }
    let mut row = before.clone();
    let reset_sections = reset_columns(store, &mut row, reset).await?;
    let after_reset = row.clone();
    apply(&mut row, fields);
    let differs = |column: &MethodColumn, a, b| column.get(a) != column.get(b);
    let is_conflicting = |column: &&MethodColumn| {
        let is_reset = reset.iter().any(|name| name == column.name);
        differs(column, &row, &after_reset) && (is_reset || differs(column, &after_reset, &before))
    };
    if let Some(column) = MethodRow::COLUMNS.iter().find(is_conflicting) {
        let problem = format!("`--reset` and a new value are both given for `{}`", column.name);
        return Err(hinted(problem, "give one of them"));
    }
    if no_sections {
        row.sections = None;
    }
    let replaces_sections = no_sections || !fields.sections.is_empty();
    let required_sections = replaces_sections.then_some(fields.sections.as_slice());
    let required_sections = required_sections.or(reset_sections.as_deref());
    if row == before && required_sections.is_none() {
        printer::message(format_args!(
            "method `{id}` is unchanged; `callgate method set --help` lists what can be changed"
        ));
        return Ok(());
    }
    if row.upstream_name() != LOCAL {
        check_row(&row)?;
    }
    store.update_method(&before, &row, required_sections).await?;
    printer::message(format_args!("changed method `{id}`"));
    print_findings(config, store, id).await
}

/// Checks a row that a person has written. The check is stricter than for a row of an import.
fn check_row(row: &MethodRow) -> Result<()> {
    let context = || format!("method `{}`", row.rpc_method);
    let findings = check(row).with_context(context)?;
    match findings.into_iter().find(|finding| matches!(finding, Finding::DefaultMismatch(_))) {
        Some(mismatch) => Err(anyhow::Error::msg(mismatch.to_string()).context(context())),
        None => Ok(()),
    }
}

/// Refuses changes of the parameters, the result, the upstream or the minimum access of a method that is defined in
/// code.
fn refuse_changes_to_code(id: &str, fields: &MethodFields, no_sections: bool) -> Result<()> {
    let changes_params = !fields.params.is_empty() || fields.input_schema.is_some();
    let changes_result = fields.returns.is_some() || fields.output_schema.is_some();
    let changes_service =
        fields.upstream.is_some() || fields.remote_name.is_some() || fields.params_by.is_some();
    if changes_params || changes_result || changes_service || no_sections {
        return Err(hinted(
            format!("`{id}` is defined by the program that serves it"),
            "its title, description, safety, annotations, tool name, exposure and the masks of its \
             sections can be changed; its parameters, result, upstream and minimum access cannot",
        ));
    }
    Ok(())
}

/// Sets columns to the values of the last import. Returns the required sections to write.
async fn reset_columns(
    store: &Arc<SqlStore>,
    row: &mut MethodRow,
    columns: &[String],
) -> Result<Option<Vec<(String, Mask)>>> {
    let mut required_sections = None;
    if columns.is_empty() {
        return Ok(required_sections);
    }
    let Some(imported) = ImportedMethod::read(store, row).await? else {
        return Err(hinted(
            format!("no import wrote `{}`", row.rpc_method),
            "`--reset` restores values of imports; set the value instead",
        ));
    };
    let overrides = overrides(store, row).await?;
    for column in columns {
        let before = row.clone();
        let reset = imported.reset(row, column)?;
        if *row == before && !overrides.iter().any(|it| it.column == column) {
            printer::message(format_args!(
                "note: `{column}` already has the value of the last import"
            ));
        } else {
            required_sections = reset.or(required_sections);
        }
    }
    Ok(required_sections)
}

async fn first_row(store: &Arc<SqlStore>, id: &str) -> Result<MethodRow> {
    let rows = store.methods_with_id(id).await?;
    Ok(rows.into_iter().next().ok_or_else(|| method_not_found(id))?)
}

fn method_not_found(id: &str) -> StoreError {
    Entity::Method.not_found(id)
}

fn apply(row: &mut MethodRow, fields: &MethodFields) {
    let set = |column: &mut Option<String>, value: &Option<String>| {
        if value.is_some() {
            column.clone_from(value);
        }
    };
    set(&mut row.title, &fields.title);
    set(&mut row.description, &fields.description);
    set(&mut row.return_type, &fields.returns);
    set(&mut row.upstream, &fields.upstream);
    set(&mut row.tool_name, &fields.tool_name);
    set(&mut row.remote_name, &fields.remote_name);
    set(&mut row.params_by, &fields.params_by);
    set(&mut row.input_schema, &fields.input_schema);
    set(&mut row.output_schema, &fields.output_schema);
    if !fields.sections.is_empty() {
        // The row repeats the sections of the actions. If an action is lost, the method is then closed instead of open.
        let idents: Vec<&str> = fields.sections.iter().map(|(ident, _)| ident.as_str()).collect();
        row.sections = Some(json!(idents).to_string());
    }
    if !fields.params.is_empty() {
        row.params = Some(json!(fields.params).to_string());
        (row.params_types, row.defaults, row.input_schema) = (None, None, None);
    }
    if fields.returns.is_some() {
        row.output_schema = None;
    }
    let flag = |is_given: bool, value: &str| is_given.then(|| value.to_owned());
    set(&mut row.safety, &flag(fields.read_only, "read_only"));
    set(&mut row.safety, &flag(fields.destructive, "destructive"));
    set(&mut row.exposed, &flag(fields.hidden, "0"));
    set(&mut row.exposed, &flag(fields.exposed, "1"));
    if fields.annotations.is_some() || fields.checked || fields.unchecked {
        let is_checked = fields.checked || !(fields.unchecked || is_unchecked(row));
        let annotations = fields.annotations.as_ref().or(row.annotations.as_ref());
        row.annotations = with_check(annotations.map(String::as_str), is_checked);
    }
}

/// Returns the annotations with the check of arguments turned on or off.
fn with_check(annotations: Option<&str>, is_checked: bool) -> Option<String> {
    let mut annotations: Map<String, Value> =
        annotations.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    annotations.shift_remove(CHECK_ARGUMENTS);
    if !is_checked {
        annotations.insert(CHECK_ARGUMENTS.to_owned(), json!(false));
    }
    (!annotations.is_empty()).then(|| Value::Object(annotations).to_string())
}

fn is_unchecked(row: &MethodRow) -> bool {
    let annotations: Option<Value> =
        row.annotations.as_deref().and_then(|text| serde_json::from_str(text).ok());
    annotations
        .is_some_and(|annotations| annotations.get(CHECK_ARGUMENTS) == Some(&Value::Bool(false)))
}

async fn inspection(config: &Config, store: &Arc<SqlStore>, id: &str) -> Result<Inspection> {
    let rows = store.catalog_rows().await?;
    let found = inspect(&rows, id, assembly(config))
        .with_context(|| format!("method `{id}` is quarantined"))?;
    Ok(found.ok_or_else(|| method_not_found(id))?)
}

async fn print_findings(config: &Config, store: &Arc<SqlStore>, id: &str) -> Result<()> {
    let inspection = inspection(config, store, id).await?;
    for finding in &inspection.findings {
        printer::message(format_args!("note: {finding}"));
    }
    if inspection.row.upstream_name() == LOCAL {
        printer::message(DEFINED_IN_CODE);
    } else if inspection.tool.is_some() && inspection.requirement.is_open() {
        printer::message(
            "note: no section, so every caller may call the method; add a section with `--section`",
        );
    }
    Ok(())
}

fn list(config: &Config, rows: &CatalogRows, as_json: bool) {
    let catalog = assemble(rows, assembly(config)).catalog;
    let open: Vec<&str> = open_entries(&catalog).map(|entry| entry.id().as_str()).collect();
    if !open.is_empty() && open_methods(rows, config.open_methods).is_none() {
        printer::message(format_args!(
            "warning: {} of these methods have no section, so every caller may call them, even without a token; add \
             sections, or set `open_methods`",
            open.len()
        ));
    }
    let required_sections = RequiredSectionsByKey::of_rows(rows);
    let mut methods: Vec<&MethodRow> = rows.methods.iter().collect();
    methods.sort_by(|a, b| a.rpc_method.cmp(&b.rpc_method));
    let mut served = HashSet::new();
    let columns = [
        ("id", "ID"),
        ("title", ""),
        ("description", ""),
        ("tool_name", ""),
        ("upstream", "UPSTREAM"),
        ("safety", "SAFETY"),
        ("sections", "SECTIONS"),
        ("state", "STATE"),
    ];
    let rows = methods.into_iter().map(|row| {
        let is_first = served.insert(row.rpc_method.as_str());
        [
            json!(row.rpc_method),
            json!(row.title),
            json!(row.description),
            json!(row.tool_name),
            json!(row.upstream_name()),
            json!(row.safety),
            match open.binary_search(&row.rpc_method.as_str()) {
                Ok(_) if is_first && !as_json => json!("OPEN TO EVERYONE"),
                _ => json!(named_masks(&required_sections.of(row))),
            },
            json!(state(row, &catalog, is_first)),
        ]
    });
    printer::list(as_json, columns, rows);
}

/// Returns a word for how a row is served.
fn state(row: &MethodRow, catalog: &Catalog, is_first: bool) -> &'static str {
    if row.upstream_name() == LOCAL {
        return if row.exposed.as_deref() == Some("0") { "hidden" } else { "overlay" };
    }
    if is_first && catalog.by_id(&row.rpc_method).is_some() {
        return "tool";
    }
    let escaped_id = row.rpc_method.escape_debug().to_string();
    let is_quarantined = catalog.quarantined().iter().any(|method| method.id == escaped_id);
    if is_quarantined { "quarantined" } else { "hidden" }
}

async fn show(
    config: &Config,
    store: &Arc<SqlStore>,
    id: &str,
    caller: Option<&str>,
    as_json: bool,
) -> Result<()> {
    let inspection = inspection(config, store, id).await?;
    let decision = match caller {
        None => None,
        Some(name) => Some(decide(config, store, &inspection, name).await?),
    };
    let upstream = inspection.row.upstream_name();
    let is_code = upstream == LOCAL;
    let tool: Option<Value> =
        inspection.tool.as_deref().map(serde_json::from_str).transpose().unwrap_or_default();
    let requirements = inspection.requirement.sections().iter();
    let requirements: Vec<String> = requirements
        .map(|(section, requirement)| format!("section `{section}` {requirement}"))
        .collect();
    let mut findings: Vec<String> = inspection.findings.iter().map(ToString::to_string).collect();
    if is_unchecked(&inspection.row) {
        findings.push(format!(
            "its arguments are not checked; `callgate method set {id} --checked` turns the check on"
        ));
    }
    let overrides = overrides(store, &inspection.row).await?;
    // A method in code can require more access than its rows, but never less.
    let is_inconclusive = |decision: &ExplainedDecision| is_code && decision.is_allowed;
    if as_json {
        let decision = decision.filter(|it| !is_inconclusive(it)).map(|it| it.reason);
        printer::json(json!({
            "id": id,
            "upstream": upstream,
            "remote_name": inspection.row.remote_name,
            "tool": tool,
            "needs": requirements,
            "findings": findings,
            "overrides": overrides,
            "decision": decision,
        }));
        return Ok(());
    }
    let remote = inspection.row.remote_name.as_deref().filter(|name| !name.is_empty());
    let remote = remote.map(|name| format!(" as `{name}`")).unwrap_or_default();
    printer::data(format_args!("{id}, on upstream `{upstream}`{remote}"));
    match tool {
        Some(tool) => printer::json(serde_json::to_string_pretty(&tool)?),
        None if is_code => printer::data(DEFINED_IN_CODE),
        None => printer::data("not exposed"),
    }
    if requirements.is_empty() && !is_code {
        printer::data("open to every caller");
    }
    let notes = findings.into_iter().map(|finding| format!("note: {finding}"));
    let overrides = overrides.iter().map(|it| format!("override: {it}"));
    for line in requirements.into_iter().chain(notes).chain(overrides) {
        printer::data(line);
    }
    if let (Some(decision), Some(caller)) = (decision, caller) {
        let inconclusive = "not denied by the registry; the program may require more access";
        let reason = if is_inconclusive(&decision) { inconclusive } else { &decision.reason };
        printer::data(format_args!("{caller}: {reason}"));
    }
    Ok(())
}

/// Returns the columns that people have changed since the last import.
async fn overrides(store: &Arc<SqlStore>, row: &MethodRow) -> Result<Vec<Override>> {
    let Some(imported) = ImportedMethod::read(store, row).await? else { return Ok(Vec::new()) };
    let required_sections = RequiredSectionsByKey::of_rows(&store.catalog_rows().await?).of(row);
    Ok(imported.overrides(row, &required_sections))
}

/// Explains whether a user may call a method.
async fn decide(
    config: &Config,
    store: &Arc<SqlStore>,
    inspection: &Inspection,
    name: &str,
) -> Result<ExplainedDecision> {
    let caller = caller_named(&store.access_rows().await?, name)?;
    let decision = inspection.requirement.decide(&caller.grants);
    if decision.is_allowed()
        && let Some(explained) =
            access::decide(config, store, &inspection.row, &caller, &decision).await?
    {
        return Ok(explained);
    }
    Ok(ExplainedDecision { is_allowed: decision.is_allowed(), reason: decision.to_string() })
}
