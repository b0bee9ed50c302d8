//! Methods from a manifest, Callgate's own format in TOML or JSON.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::Context as _;
use callgate::Mask;
use callgate_registry::{DEFAULT_UPSTREAM, GUESSED, MethodRow, Overlay, TypeRow};
use schemars::JsonSchema;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::hinted::hinted;
use crate::source::{Proposal, RequiredMask, Source};

/// Methods and the classes that their types name.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    /// URL of the schema of this format, for editors.
    #[serde(rename = "$schema", default, skip_serializing_if = "Option::is_none")]
    pub(crate) schema: Option<String>,
    /// Identifies this manifest among others of the same upstreams. An import hides the methods that
    /// came from an earlier manifest of this name and are missing in this manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// Upstream of methods that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) upstream: Option<String>,
    /// The methods.
    #[serde(default)]
    pub(crate) methods: Vec<ManifestMethod>,
    /// Classes by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) types: BTreeMap<String, ManifestClass>,
}

/// A JSON-RPC method.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "struct Method")]
#[schemars(rename = "Method")]
pub(crate) struct ManifestMethod {
    /// Id, such as `user.get`.
    pub(crate) id: String,
    /// Title for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    /// What the method does and returns, for agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// Parameters in order: `int $id`, `bool $details = false`, or a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<ManifestParam>>")]
    pub(crate) params: Option<Vec<Value>>,
    /// Types of the parameters, in the order of `params`. They take precedence over the types in `params`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) params_types: Option<Vec<Option<String>>>,
    /// Default values by parameter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) defaults: Option<Map<String, Value>>,
    /// Type of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) returns: Option<String>,
    /// JSON Schema of all arguments, in place of `params`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) input_schema: Option<Map<String, Value>>,
    /// JSON Schema of the result, in place of `returns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output_schema: Option<Map<String, Value>>,
    /// How parameters are sent; by default as the upstream is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) params_by: Option<ParamsBy>,
    /// Whether calls change anything; by default guessed from the id and the description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) safety: Option<ManifestSafety>,
    /// Whether the method is a tool; by default as `exposure` in the configuration says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exposed: Option<bool>,
    /// Whether the method is deprecated: imported, but not a tool.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) deprecated: bool,
    /// Masks that callers need, by section; callers need all of them. With an empty table, callers need none, and
    /// `open_methods` decides whether they may call the method. By default, an import does not change the sections.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "sections")]
    pub(crate) sections: Option<BTreeMap<String, ManifestMask>>,
    /// Annotations for clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) annotations: Option<Map<String, Value>>,
    /// Upstream that runs the method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) upstream: Option<String>,
    /// Name of the tool over MCP, without the prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tool_name: Option<String>,
    /// Name of the method at its service, if it differs from the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) remote_name: Option<String>,
    /// Value of `plugin` in the actions of the method; by default the upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) plugin: Option<String>,
    /// Value of `method` in the actions of the method; by default the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) method: Option<String>,
}

/// A parameter. Only the schema of this type is used, because the registry parses parameters.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Param")]
#[expect(dead_code, reason = "only its schema is used")]
enum ManifestParam {
    /// In the syntax of PHP: `int $id`, `bool $details = false`, `int ...$ids`.
    Text(String),
    Table(ParamTable),
}

/// A parameter with a description or a schema.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct ParamTable {
    /// The name.
    name: String,
    /// The type.
    #[serde(rename = "type")]
    ty: Option<String>,
    /// A JSON Schema in place of the type.
    schema: Option<Map<String, Value>>,
    /// Description for the agent.
    description: Option<String>,
    /// Whether the parameter may be left out.
    optional: Option<bool>,
    /// Value that is sent if the parameter is left out.
    default: Option<Value>,
}

/// How parameters are sent.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ParamsBy {
    /// As an object.
    Name,
    /// As a list.
    Position,
    /// As a list, or as an object if the list would have a gap that neither a default nor null can fill.
    Either,
    /// As a list in which a gap without a default is null.
    PositionNull,
}

/// Name of [`ManifestSafety::Unknown`]. In the registry, the column `safety` is empty instead.
pub(crate) const UNKNOWN: &str = "unknown";

/// Whether calls change anything.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ManifestSafety {
    /// Calls change nothing.
    ReadOnly,
    /// Calls change something.
    Destructive,
    /// Guessed and not approved: calls seem to change nothing.
    GuessedReadOnly,
    /// Guessed and not approved: calls seem to change something.
    GuessedDestructive,
    /// Not known and not guessed: shown as destructive.
    Unknown,
}

/// Mask that callers need on a section.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ManifestMask {
    Read,
    Write,
    Execute,
    /// No mask is enough.
    Closed,
}

/// A class.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "struct Class")]
#[schemars(rename = "Class")]
pub(crate) struct ManifestClass {
    /// Properties in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<ClassField>>")]
    pub(crate) fields: Option<Vec<Value>>,
    /// JSON Schema in place of the properties.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) schema: Option<Map<String, Value>>,
}

/// A property of a class.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct ClassField {
    /// The name.
    name: String,
    /// The type.
    #[serde(rename = "type")]
    ty: Option<String>,
    /// Description for the agent.
    description: Option<String>,
    /// Whether the property may be left out.
    optional: Option<bool>,
}

/// Fails if a section is given twice. A JSON parser would use the last mask, which may be lower.
fn sections<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, ManifestMask>>, D::Error> {
    struct Sections;

    impl<'de> Visitor<'de> for Sections {
        type Value = Option<BTreeMap<String, ManifestMask>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table of masks by section")
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut sections = BTreeMap::new();
            while let Some((ident, mask)) = map.next_entry::<String, _>()? {
                if sections.contains_key(&ident) {
                    return Err(A::Error::custom(format_args!("section `{ident}` is given twice")));
                }
                sections.insert(ident, mask);
            }
            Ok(Some(sections))
        }
    }

    deserializer.deserialize_any(Sections)
}

fn parse(text: &str) -> anyhow::Result<Manifest> {
    if text.trim_start().starts_with('{') {
        serde_json::from_str(text).context("invalid manifest")
    } else {
        toml::from_str(text).context("invalid manifest")
    }
}

/// Reads a manifest as an overlay for the methods of a Festi database. Guesses nothing.
pub fn overlay(text: &str) -> anyhow::Result<Overlay> {
    let manifest = parse(text)?;
    let mut overlay = Overlay::default();
    for mut method in manifest.methods {
        if method.sections.is_some() || method.plugin.is_some() || method.method.is_some() {
            return Err(hinted(
                format!("method `{}`: an overlay cannot set who may call it", method.id),
                "remove `sections`, `plugin` and `method`: the tables of the Festi database decide",
            ));
        }
        let upstream = method.upstream.take().or_else(|| manifest.upstream.clone());
        let proposal = proposal(method, DEFAULT_UPSTREAM);
        let safety = proposal.row.safety.filter(|safety| !safety.starts_with(GUESSED));
        overlay.methods.push(MethodRow { safety, upstream, ..proposal.row });
    }
    overlay.types = manifest.types.into_iter().map(type_row).collect();
    Ok(overlay)
}

/// Reads a manifest. `upstream` and `name` take precedence over the values in the manifest.
pub fn read(text: &str, upstream: Option<&str>, name: Option<&str>) -> anyhow::Result<Source> {
    let manifest = parse(text)?;
    let default = upstream.or(manifest.upstream.as_deref()).unwrap_or(DEFAULT_UPSTREAM);
    let name = match name.or(manifest.name.as_deref()) {
        Some(name) => format!("manifest `{name}`"),
        None => "manifest".to_owned(),
    };
    let mut source = Source::new(name, default);
    for method in manifest.methods {
        let proposal = proposal(method, default);
        source.upstreams.insert(proposal.row.upstream_name().to_owned());
        source.add(Ok(proposal))?;
    }
    source.add_types(manifest.types.into_iter().map(type_row))?;
    Ok(source)
}

fn proposal(method: ManifestMethod, default_upstream: &str) -> Proposal {
    let hidden = match (method.deprecated, method.exposed) {
        (true, _) => Some("deprecated"),
        (_, Some(false)) => Some("not exposed in the manifest"),
        _ => None,
    };
    let row = MethodRow {
        rpc_method: method.id,
        title: method.title,
        description: method.description,
        params: json(method.params),
        params_types: json(method.params_types),
        defaults: json(method.defaults),
        return_type: method.returns,
        input_schema: json(method.input_schema),
        output_schema: json(method.output_schema),
        params_by: name(method.params_by),
        exposed: method.exposed.map(|exposed| if exposed { "1" } else { "0" }.to_owned()),
        annotations: json(method.annotations),
        upstream: Some(method.upstream.unwrap_or_else(|| default_upstream.to_owned())),
        tool_name: method.tool_name,
        remote_name: method.remote_name,
        plugin: method.plugin,
        method: method.method,
        ..MethodRow::default()
    };
    let required = |mask: ManifestMask| match mask {
        ManifestMask::Read => RequiredMask::Mask(Mask::Read),
        ManifestMask::Write => RequiredMask::Mask(Mask::Write),
        ManifestMask::Execute => RequiredMask::Mask(Mask::Execute),
        ManifestMask::Closed => RequiredMask::Closed,
    };
    let needs = method.sections.map(|sections| {
        sections.into_iter().map(|(ident, mask)| (ident, required(mask))).collect()
    });
    let proposal = match name(method.safety) {
        Some(safety) => {
            let safety = Some(safety).filter(|safety| safety != UNKNOWN);
            Proposal { row: MethodRow { safety, ..row }, ..Proposal::default() }
        }
        None => Proposal::new(row, None),
    };
    Proposal { needs, ..proposal.hide(hidden) }
}

fn type_row((name, class): (String, ManifestClass)) -> TypeRow {
    TypeRow { name, fields: json(class.fields), schema: json(class.schema) }
}

/// Returns the serialized name of a variant, as the registry stores it.
fn name(variant: impl Serialize) -> Option<String> {
    json!(variant).as_str().map(ToOwned::to_owned)
}

fn json<T: Serialize>(value: Option<T>) -> Option<String> {
    serde_json::to_string(&value?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duplicate_section_is_refused() {
        let manifest = |sections: &str| {
            let text = format!(r#"{{"methods": [{{"id": "a", "sections": {sections}}}]}}"#);
            parse(&text).map_err(|error| format!("{error:#}"))
        };
        let error = manifest(r#"{"pay": "execute", "pay": "read"}"#).unwrap_err();
        assert!(error.contains("section `pay` is given twice"), "{error}");
        assert!(manifest(r#"{"pay": "execute", "log": "read"}"#).is_ok());
        assert!(manifest("null").unwrap().methods[0].sections.is_none());
    }

    #[test]
    fn the_committed_json_schema_of_manifests_is_up_to_date() {
        let schema = schemars::schema_for!(Manifest);
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        let path =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/manifest.schema.json");
        if std::env::var_os("INSTA_UPDATE").is_some_and(|update| update == "always") {
            std::fs::write(path, &text).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(committed == text, "{path} is old; run the test with INSTA_UPDATE=always");
    }
}
