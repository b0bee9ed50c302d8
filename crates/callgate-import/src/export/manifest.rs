//! Writes the registry as a manifest in JSON. TOML is not used, because it has no null.

use std::collections::HashSet;

use anyhow::{Context as _, anyhow};
use callgate_registry::{CatalogRows, DEFAULT_UPSTREAM, MethodRow, TypeRow};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::Exported;
use crate::manifest::{Manifest, ManifestClass, ManifestMask, ManifestMethod, UNKNOWN};
use crate::plan::columns::normalized;
use crate::required_sections::{RequiredSections, RequiredSectionsByKey};
use crate::schema::repair_php;

/// Writes the methods for which `is_selected` returns `true`, and all classes.
pub fn write(
    rows: &CatalogRows,
    is_selected: impl Fn(&MethodRow) -> bool,
) -> anyhow::Result<Exported> {
    let mut manifest = Manifest::default();
    let mut omitted = Vec::new();
    let mut ids = HashSet::new();
    let needs = RequiredSectionsByKey::of_rows(rows);
    for row in rows.methods.iter().filter(|row| is_selected(row)) {
        let id = &row.rpc_method;
        if !ids.insert(id.as_str()) {
            omitted.push((id.clone(), "another row has the same id".to_owned()));
            continue;
        }
        match method(row, &needs.of(row)) {
            Ok(method) => manifest.methods.push(method),
            Err(error) => omitted.push((id.clone(), format!("{error:#}"))),
        }
    }
    for row in &rows.types {
        match class(row) {
            Ok(class) => {
                manifest.types.insert(row.name.clone(), class);
            }
            Err(error) => omitted.push((format!("class {}", row.name), format!("{error:#}"))),
        }
    }
    manifest.methods.sort_by(|a, b| a.id.cmp(&b.id));
    let text = serde_json::to_string_pretty(&manifest).context("cannot write JSON")?;
    Ok(Exported { text, omitted })
}

fn method(row: &MethodRow, needs: &RequiredSections) -> anyhow::Result<ManifestMethod> {
    let row = &normalized(row);
    if let Some(column) = &row.unreadable {
        anyhow::bail!("{column}: the bytes are not text");
    }
    let MethodRow { params, params_types, defaults, input_schema, output_schema, .. } = row;
    let upstream = row.upstream_name();
    let safety = variant(
        "safety",
        row.safety.as_deref().unwrap_or(UNKNOWN),
        "read_only, destructive, guessed_read_only or guessed_destructive",
    )?;
    let style = |text| variant("params_by", text, "name, position, either or position-null");
    let params_by = row.params_by.as_deref().map(style).transpose()?;
    let exposed = match row.exposed.as_deref() {
        None => None,
        Some("1" | "true" | "t") => Some(true),
        Some("0" | "false" | "f") => Some(false),
        Some(other) => anyhow::bail!("unknown `exposed` value `{other}`; expected 0 or 1"),
    };
    Ok(ManifestMethod {
        id: row.rpc_method.clone(),
        title: row.title.clone(),
        description: row.description.clone(),
        params: json("params", params.as_deref())?,
        params_types: json("params_types", params_types.as_deref())?,
        defaults: object("defaults", defaults.as_deref())?,
        returns: row.return_type.clone(),
        input_schema: schema("input_schema", input_schema.as_deref())?,
        output_schema: schema("output_schema", output_schema.as_deref())?,
        params_by,
        safety: Some(safety),
        exposed,
        deprecated: false,
        sections: Some(
            needs.iter().map(|(ident, mask)| (ident.clone(), mask_name(mask))).collect(),
        ),
        annotations: object("annotations", row.annotations.as_deref())?,
        upstream: Some(upstream.to_owned()).filter(|name| name != DEFAULT_UPSTREAM),
        tool_name: row.tool_name.clone(),
        remote_name: row.remote_name.clone(),
        plugin: row.plugin.clone().filter(|plugin| plugin != upstream),
        method: row.method.clone().filter(|method| *method != row.rpc_method),
    })
}

/// Parses a column that contains the name of an enum variant.
fn variant<T: DeserializeOwned>(column: &str, text: &str, expected: &str) -> anyhow::Result<T> {
    serde_json::from_value(json!(text))
        .map_err(|_| anyhow!("unknown `{column}` value `{text}`; expected {expected}"))
}

/// Parses a column. Returns `None` if the column is empty.
fn json<T: DeserializeOwned>(
    column: &'static str,
    text: Option<&str>,
) -> anyhow::Result<Option<T>> {
    let text = text.filter(|text| !text.trim().is_empty());
    text.map(serde_json::from_str).transpose().context(column)
}

/// Parses an object. PHP writes an empty object as an empty list.
fn object(column: &'static str, text: Option<&str>) -> anyhow::Result<Option<Map<String, Value>>> {
    json(column, text.map(|text| if text == "[]" { "{}" } else { text }))
}

/// Parses a schema, which PHP may have written.
fn schema(column: &'static str, text: Option<&str>) -> anyhow::Result<Option<Map<String, Value>>> {
    let mut schema = object(column, text)?.map_or(Value::Null, Value::Object);
    repair_php(&mut schema);
    match schema {
        Value::Object(members) => Ok(Some(members)),
        _ => Ok(None),
    }
}

/// Returns the name of a mask, or `Closed` if no grant satisfies it.
fn mask_name(mask: &str) -> ManifestMask {
    match mask.parse().ok().and_then(callgate::Mask::required) {
        Some(callgate::Mask::Execute) => ManifestMask::Execute,
        Some(callgate::Mask::Write) => ManifestMask::Write,
        Some(_) => ManifestMask::Read,
        None => ManifestMask::Closed,
    }
}

fn class(row: &TypeRow) -> anyhow::Result<ManifestClass> {
    let fields = json::<Option<_>>("fields", row.fields.as_deref())?.flatten();
    Ok(ManifestClass {
        fields,
        schema: json::<Option<_>>("schema", row.schema.as_deref())?.flatten(),
    })
}
