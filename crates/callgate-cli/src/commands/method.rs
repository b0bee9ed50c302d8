//! `callgate method add|edit|list|show|remove`

use std::sync::Arc;

use anyhow::Context as _;
use callgate::{LOCAL, Prefix};
use callgate_registry::{
    Assembly, CatalogRows, Inspection, MethodRow, Store, StoreError, access, check, inspect,
};
use serde_json::{Value, json};

use super::{json_line, or_dash};
use crate::cli::{Method, MethodFields};
use crate::config::Config;
use crate::printer::Printer;
use crate::registry;

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
            check(&row).with_context(|| format!("method `{id}`"))?;
            store.add_method(&row, &fields.sections).await?;
            printer.talk(format_args!("added method `{id}`"));
            tell_findings(config, &store, &id, printer).await
        }
        Method::Edit { id, fields, no_sections } => {
            let mut row = first_row(&store, &id).await?;
            apply(&mut row, &fields);
            if row.upstream_name() != LOCAL {
                check(&row).with_context(|| format!("method `{id}`"))?;
            }
            let replaces_sections = no_sections || !fields.sections.is_empty();
            let needs = replaces_sections.then_some(fields.sections.as_slice());
            store.update_method(&row, needs).await?;
            printer.talk(format_args!("changed method `{id}`"));
            tell_findings(config, &store, &id, printer).await
        }
        Method::List { json } => list(&store.catalog_rows().await?, json, printer),
        Method::Show { id, caller, json } => {
            show(config, &store, &id, caller.as_deref(), json, printer).await
        }
        Method::Remove { id } => {
            store.remove_method(&id).await?;
            printer.talk(format_args!("removed method `{id}`"));
            Ok(())
        }
    }
}

async fn first_row(store: &Arc<dyn Store>, id: &str) -> anyhow::Result<MethodRow> {
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

fn assembly(config: &Config) -> Assembly<'static> {
    Assembly {
        code: &[],
        exposure: config.exposure,
        prefix: Prefix::default(),
        upstreams: &[LOCAL],
        previous: None,
    }
}

async fn inspection(
    config: &Config,
    store: &Arc<dyn Store>,
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
    store: &Arc<dyn Store>,
    id: &str,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let inspection = inspection(config, store, id).await?;
    for finding in &inspection.findings {
        printer.talk(format_args!("note: {finding}"));
    }
    if inspection.tool.is_some() && inspection.requirement.is_open() {
        printer.talk("note: no section, so open to every caller; add one with `--section`");
    }
    Ok(())
}

fn list(rows: &CatalogRows, json: bool, printer: &mut Printer) -> anyhow::Result<()> {
    let mut methods: Vec<&MethodRow> = rows.methods.iter().collect();
    methods.sort_by(|a, b| a.rpc_method.cmp(&b.rpc_method));
    if json {
        for row in methods {
            let line = json!({
                "id": row.rpc_method,
                "title": row.title,
                "description": row.description,
                "tool_name": row.tool_name,
                "upstream": row.upstream_name(),
                "safety": row.safety,
                "exposed": row.exposed.as_deref().map(|exposed| exposed == "1"),
                "sections": sections_of(rows, row),
            });
            printer.data(json_line(&line)?);
        }
        return Ok(());
    }
    let lines: Vec<_> = methods
        .iter()
        .map(|row| {
            vec![
                row.rpc_method.clone(),
                row.upstream_name().to_owned(),
                or_dash(row.safety.as_deref()),
                or_dash(Some(&sections_of(rows, row).join(" "))),
                if row.exposed.as_deref() == Some("0") { "no" } else { "yes" }.to_owned(),
            ]
        })
        .collect();
    printer.table(&["ID", "UPSTREAM", "SAFETY", "SECTIONS", "EXPOSED"], &lines);
    Ok(())
}

fn sections_of(rows: &CatalogRows, row: &MethodRow) -> Vec<String> {
    let (plugin, method) = row.permission_key();
    let actions = rows.actions.iter().filter(|a| a.plugin == plugin && a.method == method);
    actions
        .map(|action| {
            let section = rows.sections.iter().find(|section| section.id == action.id_section);
            let ident = section.map_or("?", |section| &section.ident);
            format!("{ident}:{}", action.mask)
        })
        .collect()
}

async fn show(
    config: &Config,
    store: &Arc<dyn Store>,
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
            Some(inspection.requirement.decide(&caller.grants))
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
    let findings: Vec<String> = inspection.findings.iter().map(ToString::to_string).collect();
    if json {
        let line = json!({
            "id": id,
            "upstream": inspection.row.upstream_name(),
            "tool": tool,
            "needs": needs,
            "findings": findings,
            "decision": decision.map(|decision| decision.to_string()),
        });
        printer.data(json_line(&line)?);
        return Ok(());
    }
    printer.data(format_args!("{id}, on upstream `{}`", inspection.row.upstream_name()));
    match (&tool, inspection.row.upstream_name()) {
        (Some(tool), _) => printer.data(serde_json::to_string_pretty(tool)?),
        (None, LOCAL) => printer.data("defined by the program that serves it"),
        (None, _) => printer.data("not exposed"),
    }
    if needs.is_empty() {
        printer.data("open to every caller");
    }
    for need in needs {
        printer.data(need);
    }
    for finding in findings {
        printer.data(format_args!("note: {finding}"));
    }
    if let (Some(decision), Some(caller)) = (decision, caller) {
        printer.data(format_args!("{caller}: {decision}"));
    }
    Ok(())
}
