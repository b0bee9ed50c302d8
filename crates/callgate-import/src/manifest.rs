//! Methods from a manifest: our own form, in TOML or JSON.

use std::collections::BTreeMap;

use anyhow::Context as _;
use callgate::Mask;
use callgate::model::{ParamStyle, Safety};
use callgate_registry::{DEFAULT_UPSTREAM, MethodRow, Overlay, TypeRow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::hint::hinted;
use crate::source::{Needed, Proposal, Source};

/// Methods, and the classes that their types name.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    /// Where editors find the schema of this form.
    #[serde(rename = "$schema", default, skip_serializing_if = "Option::is_none")]
    pub(crate) schema: Option<String>,
    /// What tells this manifest from others of the same upstreams: methods that it had before, and has
    /// no more, are hidden by an import.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// What runs the methods that do not say it themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) upstream: Option<String>,
    /// The methods.
    #[serde(default)]
    pub(crate) methods: Vec<Method>,
    /// What classes hold, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) types: BTreeMap<String, Class>,
}

/// A JSON-RPC method.
#[expect(clippy::struct_field_names, reason = "the registry's word")]
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Method {
    /// The id, such as `user.get`.
    pub(crate) id: String,
    /// A title for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    /// What it does and returns; agents see little else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// The parameters in order: `int $id`, `bool $details = false`, or a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<Param>>")]
    pub(crate) params: Option<Vec<Value>>,
    /// Types that beat those in `params`, in the same order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) params_types: Option<Vec<Option<String>>>,
    /// Defaults, by parameter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) defaults: Option<Map<String, Value>>,
    /// The type of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) returns: Option<String>,
    /// A JSON Schema for all arguments, in place of parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) input_schema: Option<Map<String, Value>>,
    /// A JSON Schema for the result, in place of its type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output_schema: Option<Map<String, Value>>,
    /// How the upstream takes the parameters; as it is configured, unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) params_by: Option<ParamsBy>,
    /// Whether calls change anything; guessed from the id and the description unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) safety: Option<ManifestSafety>,
    /// Whether it is a tool; as `exposure` in the configuration says, unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exposed: Option<bool>,
    /// It is to go: imported, but not a tool.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) deprecated: bool,
    /// What callers need: a mask for each section, all of which must hold. None is open to every caller;
    /// unless said, an import leaves what there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sections: Option<BTreeMap<String, ManifestMask>>,
    /// Annotations that pass through to clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) annotations: Option<Map<String, Value>>,
    /// What runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) upstream: Option<String>,
    /// The tool's name over MCP, without the prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tool_name: Option<String>,
    /// The first half of what its actions are found by; the upstream unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) plugin: Option<String>,
    /// The second half of what its actions are found by; the id unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) method: Option<String>,
}

/// A parameter; only for the schema of the form, since the registry reads it.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Param {
    /// As PHP writes it: `int $id`, `bool $details = false`, `int ...$ids`.
    Text(String),
    Table(ParamTable),
}

/// A parameter that says more than a text can.
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
    /// For the agent.
    description: Option<String>,
    /// Whether it may be left out.
    optional: Option<bool>,
    /// What stands for it when it is left out.
    default: Option<Value>,
}

/// How an upstream takes parameters.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ParamsBy {
    /// As an object.
    Name,
    /// As a list.
    Position,
}

/// Whether calls change anything.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ManifestSafety {
    /// It only reads.
    ReadOnly,
    /// It changes something.
    Destructive,
    /// Nobody knows, and nobody guesses: shown as destructive.
    Unknown,
}

/// What callers need on a section.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ManifestMask {
    Read,
    Write,
    Execute,
    /// Nobody has enough.
    Closed,
}

/// What a class holds.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Class {
    /// Its properties, in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<ClassField>>")]
    pub(crate) fields: Option<Vec<Value>>,
    /// A JSON Schema in place of them.
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
    /// For the agent.
    description: Option<String>,
    /// Whether it may be left out.
    optional: Option<bool>,
}

fn parse(text: &str) -> anyhow::Result<Manifest> {
    if text.trim_start().starts_with('{') {
        serde_json::from_str(text).context("the manifest is wrong")
    } else {
        toml::from_str(text).context("the manifest is wrong")
    }
}

/// Reads a manifest as what is said of methods that a database has: only what it says, and no guesses.
pub fn overlay(text: &str) -> anyhow::Result<Overlay> {
    let manifest = parse(text)?;
    let mut overlay = Overlay::default();
    for mut method in manifest.methods {
        if method.sections.is_some() || method.plugin.is_some() || method.method.is_some() {
            return Err(hinted(
                format!("method `{}`: an overlay does not say who may call it", method.id),
                "leave `sections`, `plugin` and `method` out: the database's own tables say it",
            ));
        }
        let upstream = method.upstream.take().or_else(|| manifest.upstream.clone());
        let proposal = proposal(method, DEFAULT_UPSTREAM);
        let safety = proposal.row.safety.filter(|_| !proposal.safety_is_guess);
        overlay.methods.push(MethodRow { safety, upstream, ..proposal.row });
    }
    overlay.types = manifest.types.into_iter().map(type_row).collect();
    Ok(overlay)
}

/// Reads a manifest. `upstream` is for methods of which it says none.
pub fn read(text: &str, upstream: Option<&str>) -> anyhow::Result<Source> {
    let manifest = parse(text)?;
    let usual = upstream.or(manifest.upstream.as_deref()).unwrap_or(DEFAULT_UPSTREAM);
    let name = match &manifest.name {
        Some(name) => format!("manifest `{name}`"),
        None => "manifest".to_owned(),
    };
    let mut source = Source::new(name, usual);
    for method in manifest.methods {
        let proposal = proposal(method, usual);
        source.upstreams.insert(proposal.row.upstream_name().to_owned());
        source.methods.push(proposal);
    }
    source.types = manifest.types.into_iter().map(type_row).collect();
    Ok(source)
}

fn proposal(method: Method, usual: &str) -> Proposal {
    let hidden = match (method.deprecated, method.exposed) {
        (true, _) => Some("deprecated"),
        (_, Some(false)) => Some("the manifest says so"),
        _ => None,
    };
    let params_by = method.params_by.map(|by| match by {
        ParamsBy::Name => ParamStyle::Named,
        ParamsBy::Position => ParamStyle::Positional,
    });
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
        params_by: params_by.map(|style| style.as_str().to_owned()),
        exposed: method.exposed.map(|exposed| if exposed { "1" } else { "0" }.to_owned()),
        annotations: json(method.annotations),
        upstream: Some(method.upstream.unwrap_or_else(|| usual.to_owned())),
        tool_name: method.tool_name,
        plugin: method.plugin,
        method: method.method,
        ..MethodRow::default()
    };
    let needed = |mask: ManifestMask| match mask {
        ManifestMask::Read => Needed::Mask(Mask::Read),
        ManifestMask::Write => Needed::Mask(Mask::Write),
        ManifestMask::Execute => Needed::Mask(Mask::Execute),
        ManifestMask::Closed => Needed::Closed,
    };
    let needs = method
        .sections
        .map(|sections| sections.into_iter().map(|(ident, mask)| (ident, needed(mask))).collect());
    let proposal = match method.safety {
        Some(ManifestSafety::ReadOnly) => Proposal::new(row, Some(Safety::ReadOnly)),
        Some(ManifestSafety::Destructive) => Proposal::new(row, Some(Safety::Destructive)),
        Some(ManifestSafety::Unknown) => Proposal { row, ..Proposal::default() },
        None => Proposal::new(row, None),
    };
    Proposal { needs, ..proposal.hide(hidden) }
}

fn type_row((name, class): (String, Class)) -> TypeRow {
    TypeRow { name, fields: json(class.fields), schema: json(class.schema) }
}

fn json<T: Serialize>(value: Option<T>) -> Option<String> {
    serde_json::to_string(&value?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_of_the_form_is_up_to_date() {
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
