//! `callgate method add|edit|list|show|remove`

mod listed;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use anyhow::Context as _;
use callgate::{Catalog, LOCAL, Prefix};
use callgate_registry::{
    Assembly, CatalogRows, Inspection, MethodRow, SqlStore, Store as _, StoreError, access,
    action_key, assemble, check, inspect,
};
use serde_json::{Value, json};

use super::{json_line, or_dash};
use crate::cli::{Method, MethodFields};
use crate::config::Config;
use crate::errors::hinted;
use crate::import::guessed;
use crate::printer::Printer;
use crate::registry;
use listed::Said;

/// Of a method that is code the registry knows only what changes it.
const CODE_DECIDES: &str =
    "defined by the program that serves it, which may need more sections than the rows here say";

pub(crate) async fn run(
    config: &Config,
    method: Method,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let store = registry::open(config).await?;
    match method {
        Method::Add { id, fields } => {
            let mut row = MethodRow { rpc_method: id.clone(), ..MethodRow::default() };
            apply(&mut row, &fields);
            row.exposed.get_or_insert_with(|| "1".to_owned());
            // The key of its actions stays when the upstream changes.
            row.plugin = Some(row.upstream_name().to_owned());
            row.method = Some(id.clone());
            check(&row).with_context(|| format!("method `{id}`"))?;
            store.add_method(&row, &fields.sections).await?;
            printer.talk(format_args!("added method `{id}`"));
            tell_findings(config, &store, &id, printer).await
        }
        Method::Edit { id, fields, no_sections } => {
            let mut row = first_row(&store, &id).await?;
            if row.upstream_name() == LOCAL {
                refuse_for_code(&id, &fields, no_sections)?;
            }
            apply(&mut row, &fields);
            if no_sections {
                row.sections = None;
            }
            if row.upstream_name() != LOCAL {
                check(&row).with_context(|| format!("method `{id}`"))?;
            }
            let replaces_sections = no_sections || !fields.sections.is_empty();
            let needs = replaces_sections.then_some(fields.sections.as_slice());
            store.update_method(&row, needs).await?;
            printer.talk(format_args!("changed method `{id}`"));
            tell_findings(config, &store, &id, printer).await
        }
        Method::List { json } => list(config, &store.catalog_rows().await?, json, printer),
        Method::Show { id, caller, json } => {
            show(config, &store, &id, caller.as_deref(), json, printer).await
        }
        Method::Remove { id } => {
            let is_code = first_row(&store, &id).await?.upstream_name() == LOCAL;
            let rows = store.remove_method(&id).await?;
            if is_code {
                printer.talk(format_args!(
                    "removed what the registry said of `{id}`; the program that defines it still \
                     serves it"
                ));
            } else if !store.methods_with_id(&id).await?.is_empty() {
                printer.talk(format_args!(
                    "removed what the registry said of `{id}`; Festi still has it"
                ));
            } else {
                let all = if rows > 1 { format!(", {rows} rows") } else { String::new() };
                printer.talk(format_args!("removed method `{id}`{all}"));
            }
            Ok(())
        }
    }
}

/// A method that is code owns what it takes and the sections that it needs.
fn refuse_for_code(id: &str, fields: &MethodFields, no_sections: bool) -> anyhow::Result<()> {
    let takes = !fields.params.is_empty() || fields.input_schema.is_some();
    let returns = fields.returns.is_some() || fields.output_schema.is_some();
    if takes || returns || fields.upstream.is_some() || no_sections {
        return Err(hinted(
            format!("`{id}` is defined by the program that serves it"),
            "its title, description, safety, annotations, tool name, exposure and the masks of its \
             sections can be changed here; what it takes, returns and needs at least cannot",
        ));
    }
    Ok(())
}

async fn first_row(store: &Arc<SqlStore>, id: &str) -> anyhow::Result<MethodRow> {
    let rows = store.methods_with_id(id).await?;
    let missing = || StoreError::NotFound { what: "method", name: id.to_owned() };
    Ok(rows.into_iter().next().ok_or_else(missing)?)
}

/// Writes what the command line names into a row.
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
    set(&mut row.annotations, &fields.annotations);
    set(&mut row.input_schema, &fields.input_schema);
    set(&mut row.output_schema, &fields.output_schema);
    if !fields.sections.is_empty() {
        // Named in the row too: should an action be lost, the method is closed and not open.
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
    match (fields.read_only, fields.destructive) {
        (true, _) => row.safety = Some("read_only".to_owned()),
        (_, true) => row.safety = Some("destructive".to_owned()),
        _ => {}
    }
    match (fields.hidden, fields.exposed) {
        (true, _) => row.exposed = Some("0".to_owned()),
        (_, true) => row.exposed = Some("1".to_owned()),
        _ => {}
    }
}

fn assembly(config: &Config) -> Assembly<'_> {
    Assembly {
        code: &[],
        exposure: config.exposure,
        prefix: Prefix::default(),
        upstreams: config.upstreams.names().chain([LOCAL]).collect(),
        previous: None,
    }
}

async fn inspection(
    config: &Config,
    store: &Arc<SqlStore>,
    id: &str,
) -> anyhow::Result<Inspection> {
    let rows = store.catalog_rows().await?;
    let found = inspect(&rows, id, assembly(config))
        .with_context(|| format!("method `{id}` is quarantined"))?;
    let missing = || StoreError::NotFound { what: "method", name: id.to_owned() };
    Ok(found.ok_or_else(missing)?)
}

async fn tell_findings(
    config: &Config,
    store: &Arc<SqlStore>,
    id: &str,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let inspection = inspection(config, store, id).await?;
    for finding in &inspection.findings {
        printer.talk(format_args!("note: {finding}"));
    }
    if inspection.row.upstream_name() == LOCAL {
        printer.talk(CODE_DECIDES);
    } else if inspection.tool.is_some() && inspection.requirement.is_open() {
        printer.talk("note: no section, so open to every caller; add one with `--section`");
    }
    Ok(())
}

fn list(
    config: &Config,
    rows: &CatalogRows,
    json: bool,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let catalog = assemble(rows, assembly(config)).catalog;
    let sections = Sections::of(rows);
    let mut methods: Vec<&MethodRow> = rows.methods.iter().collect();
    methods.sort_by(|a, b| a.rpc_method.cmp(&b.rpc_method));
    let mut served = HashSet::new();
    let mut lines = Vec::new();
    for row in methods {
        let is_first = served.insert(row.rpc_method.as_str());
        let state = state(row, &catalog, is_first);
        if json {
            let line = json!({
                "id": row.rpc_method,
                "title": row.title,
                "description": row.description,
                "tool_name": row.tool_name,
                "upstream": row.upstream_name(),
                "safety": row.safety,
                "sections": sections.named_by(row),
                "state": state,
            });
            printer.data(json_line(&line)?);
        }
        lines.push(vec![
            row.rpc_method.clone(),
            row.upstream_name().to_owned(),
            or_dash(row.safety.as_deref()),
            or_dash(Some(&sections.named_by(row).join(" "))),
            state.to_owned(),
        ]);
    }
    if !json {
        printer.table(&["ID", "UPSTREAM", "SAFETY", "SECTIONS", "STATE"], &lines);
    }
    Ok(())
}

/// What has become of a row.
fn state(row: &MethodRow, catalog: &Catalog, is_first: bool) -> &'static str {
    if row.upstream_name() == LOCAL {
        return if row.exposed.as_deref() == Some("0") { "hidden" } else { "overlay" };
    }
    if is_first && catalog.by_id(&row.rpc_method).is_some() {
        return "tool";
    }
    let shown = row.rpc_method.escape_debug().to_string();
    let is_quarantined = catalog.quarantined().iter().any(|one| one.id == shown);
    if is_quarantined { "quarantined" } else { "hidden" }
}

/// The sections that methods need, as rows say.
struct Sections {
    by_key: HashMap<(String, String), Vec<String>>,
}

impl Sections {
    fn of(rows: &CatalogRows) -> Self {
        let idents: HashMap<i64, &str> =
            rows.sections.iter().map(|section| (section.id, section.ident.as_str())).collect();
        let mut by_key: HashMap<(String, String), Vec<String>> = HashMap::new();
        for action in &rows.actions {
            let ident = idents.get(&action.id_section).copied().unwrap_or("?");
            let key = action_key(&action.plugin, &action.method);
            by_key.entry(key).or_default().push(format!("{ident}:{}", action.mask));
        }
        Self { by_key }
    }

    /// With a mask where an action gives one; `closed` where the row names one without.
    fn named_by(&self, row: &MethodRow) -> Vec<String> {
        let mut named = self.by_key.get(&row.action_key()).cloned().unwrap_or_default();
        for ident in row.section_names().unwrap_or_default() {
            if !named.iter().any(|known| known.starts_with(&format!("{ident}:"))) {
                named.push(format!("{ident}:closed"));
            }
        }
        named
    }
}

async fn show(
    config: &Config,
    store: &Arc<SqlStore>,
    id: &str,
    caller: Option<&str>,
    json: bool,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let inspection = inspection(config, store, id).await?;
    let decision = match caller {
        None => None,
        Some(name) => {
            let access = access(&store.access_rows().await?);
            let missing = || StoreError::NotFound { what: "user", name: name.to_owned() };
            let caller = access.caller_named(name).ok_or_else(missing)?;
            let decision = inspection.requirement.decide(&caller.grants);
            let said = if decision.is_allowed() {
                listed::decide(config, store, &inspection.row, caller, &decision).await?
            } else {
                None
            };
            Some(said.unwrap_or(Said::of(&decision)))
        }
    };
    let tool: Option<Value> =
        inspection.tool.as_deref().map(serde_json::from_str).transpose().unwrap_or_default();
    let needs: Vec<String> = inspection
        .requirement
        .needs()
        .iter()
        .map(|(section, need)| format!("section `{section}` {need}"))
        .collect();
    let findings = findings(store, &inspection).await?;
    if json {
        let line = json!({
            "id": id,
            "upstream": inspection.row.upstream_name(),
            "tool": tool,
            "needs": needs,
            "findings": findings,
            "decision": decision
                .filter(|said| inspection.row.upstream_name() != LOCAL || !said.is_allowed)
                .map(|said| said.words),
        });
        printer.data(json_line(&line)?);
        return Ok(());
    }
    let is_code = inspection.row.upstream_name() == LOCAL;
    printer.data(format_args!("{id}, on upstream `{}`", inspection.row.upstream_name()));
    print_tool(tool.as_ref(), &needs, is_code, printer)?;
    for finding in findings {
        printer.data(format_args!("note: {finding}"));
    }
    match (decision, caller) {
        // Code can need more than rows say, never less.
        (Some(said), Some(caller)) if is_code && said.is_allowed => {
            printer.data(format_args!("{caller}: the rows do not keep them out; ask the server"));
        }
        (Some(said), Some(caller)) => printer.data(format_args!("{caller}: {}", said.words)),
        _ => {}
    }
    Ok(())
}

/// Prints a tool, and what callers need for it.
fn print_tool(
    tool: Option<&Value>,
    needs: &[String],
    is_code: bool,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    match tool {
        Some(tool) => printer.data(serde_json::to_string_pretty(tool)?),
        None if is_code => printer.data(CODE_DECIDES),
        None => printer.data("not exposed"),
    }
    if needs.is_empty() && !is_code {
        printer.data("open to every caller");
    }
    for need in needs {
        printer.data(need);
    }
    Ok(())
}

async fn findings(store: &Arc<SqlStore>, inspection: &Inspection) -> anyhow::Result<Vec<String>> {
    let mut findings: Vec<String> = inspection.findings.iter().map(ToString::to_string).collect();
    if !guessed(store, [&inspection.row]).await?.is_empty() {
        findings.push("the safety is a guess of the import; say it with `method edit`".to_owned());
    }
    Ok(findings)
}
