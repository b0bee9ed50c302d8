//! The checks from which client profiles choose, and their messages. Checks for all clients are in `general.rs`.

use serde_json::{Map, Value};
use thiserror::Error;

use super::Totals;
use crate::model::schema::single_types::{has_type_list, untyped_properties};
use crate::model::schema::walk::{accepts, for_each_schema};
use crate::model::tool::is_portable;
use crate::model::tool_name::ToolName;

/// Clients that read only the first page of `tools/list`.
pub(super) const FIRST_PAGE_ONLY: &str = "Gemini CLI, Cline, Continue, google-adk, LlamaIndex, smolagents, CrewAI, \
     mcp-use, Haystack and fast-agent";

/// Maximum number of names in a message.
const MAX_LISTED_NAMES: usize = 5;

/// A check for something that some clients reject. `Display` describes what they reject.
///
/// Value of [`Rule::check`](super::Rule::check). [`lint`](super::lint()) runs the checks of the rules in
/// [`LintOptions::profiles`](super::LintOptions::profiles).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Check {
    /// Tool names that do not consist of 1 to 64 letters, digits, `_` and `-`.
    #[error("tool names that do not consist of 1 to 64 letters, digits, `_` and `-`")]
    NameForm,
    /// Tool names that begin with a digit or `-`.
    #[error("tool names that do not begin with a letter or `_`")]
    NameStart,
    /// Maximum length of the server name and the tool name together.
    #[error(
        "a server name and a tool name that together have over {most} characters{addition}",
        addition = if *around == 0 { String::new() } else { format!(", including {around} characters that the client adds") }
    )]
    NameLength {
        /// Number of characters that the client adds to the two names.
        around: usize,
        /// Maximum number of characters of the two names, including those that the client adds.
        most: usize,
    },
    /// Parameter names that do not consist of 1 to 64 letters, digits, `_`, `.` and `-`.
    #[error("names of parameters that do not consist of 1 to 64 letters, digits, `_`, `.` and `-`")]
    PropertyNames,
    /// Keywords at the root of the input schema.
    #[error("`{keywords}` at the root of an input schema", keywords = .0.join("`, `"))]
    AtRoot(&'static [&'static str]),
    /// Input schemas without `properties`.
    #[error("an input schema without `properties`")]
    RootProperties,
    /// Arrays without `items`.
    #[error("an array without `items`")]
    Items,
    /// Lists of types, and parameters without a type.
    #[error("a list of types in `type`, and parameters without a type")]
    SingleTypes,
    /// A `$ref`.
    #[error("`$ref`")]
    References,
    /// Values of `enum` that are not strings.
    #[error("an `enum` with values that are not strings")]
    TextEnums,
    /// Schemas that are not JSON Schema 2020-12.
    #[error("schemas that are not JSON Schema 2020-12")]
    Dialect,
    /// Maximum number of characters of a description.
    #[error("descriptions of over {0} characters")]
    DescriptionLength(usize),
    /// Maximum number of tools.
    #[error("over {0} tools")]
    ToolCount(usize),
    /// Maximum number of tokens of all tools.
    #[error("tool definitions that together need over {0} tokens of a language model")]
    ListTokens(usize),
}

/// The parts of a tool that are checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct LintedTool<'a> {
    pub(super) name: &'a str,
    pub(super) description: &'a str,
    pub(super) schema: &'a Value,
    /// Name that the client's configuration gives the server.
    pub(super) server: &'a str,
}

impl Check {
    /// Returns the machine-readable code.
    pub fn code(self) -> &'static str {
        match self {
            Self::NameForm => "name-form",
            Self::NameStart => "name-start",
            Self::NameLength { .. } => "name-length",
            Self::PropertyNames => "property-names",
            Self::AtRoot(_) => "root-union",
            Self::RootProperties => "root-properties",
            Self::Items => "items",
            Self::SingleTypes => "single-types",
            Self::References => "references",
            Self::TextEnums => "text-enums",
            Self::Dialect => "dialect",
            Self::DescriptionLength(_) => "description-length",
            Self::ToolCount(_) => "tool-count",
            Self::ListTokens(_) => "list-tokens",
        }
    }

    /// Checks a tool. Returns the message if the check fails.
    pub(super) fn check_tool(self, tool: &LintedTool<'_>) -> Option<String> {
        match self {
            Self::NameForm | Self::NameStart | Self::NameLength { .. } => self.check_name(tool),
            Self::PropertyNames => property_names(tool.schema),
            Self::AtRoot(keywords) => {
                let is_present = |keyword: &&str| tool.schema.get(*keyword).is_some();
                let found: Vec<&str> = keywords.iter().copied().filter(is_present).collect();
                let message_text = "at the root of the input schema; put it into a parameter";
                (!found.is_empty()).then(|| format!("{} {message_text}", name_list(&found)))
            }
            Self::RootProperties => {
                let is_missing = !tool.schema.get("properties").is_some_and(Value::is_object);
                is_missing.then(|| {
                    "an input schema without `properties`; add it, even if it is empty".to_owned()
                })
            }
            Self::Items => report_matches(
                tool.schema,
                "an array without `items`; add the type of its items",
                |map| accepts(map, "array") && !map.contains_key("items"),
            ),
            Self::SingleTypes => single_types(tool.schema),
            Self::References => report_matches(
                tool.schema,
                "a `$ref`, which some client versions drop or refuse; if the schema is recursive, consider a flat one",
                |map| map.contains_key("$ref"),
            ),
            Self::TextEnums => report_matches(
                tool.schema,
                "an `enum` with values that are not strings, which some client versions refuse",
                |map| {
                    let values = map.get("enum").and_then(Value::as_array);
                    values.is_some_and(|values| !values.iter().all(Value::is_string))
                },
            ),
            Self::Dialect => {
                let error = jsonschema::draft202012::meta::validate(tool.schema).err()?;
                let place = error.instance_path().as_str();
                Some(format!("not JSON Schema 2020-12 at `{place}`: {error}"))
            }
            Self::DescriptionLength(limit) => {
                let length = tool.description.chars().count();
                (length > limit).then(|| {
                    format!(
                        "{length} characters in the description, and some client versions refuse over {limit}; \
                         shorten it, or move details to the parameters"
                    )
                })
            }
            Self::ToolCount(_) | Self::ListTokens(_) => None,
        }
    }

    fn check_name(self, tool: &LintedTool<'_>) -> Option<String> {
        let LintedTool { name, server, .. } = tool;
        match self {
            Self::NameForm => ToolName::parse((*name).to_owned()).is_none().then(|| {
                format!(
                    "the name `{name}` must consist of at most 64 letters, digits, `_` and `-`; change it"
                )
            }),
            Self::NameStart => {
                let is_valid = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
                (!is_valid).then(|| {
                    format!("the name `{name}` does not begin with a letter or `_`; change it")
                })
            }
            Self::NameLength { around, most } => {
                let length = around + server.chars().count() + name.chars().count();
                (length > most).then(|| {
                    format!(
                        "together with the server name `{server}`, the tool name has {length} characters, and the limit is \
                         {most}; shorten one of the names"
                    )
                })
            }
            _ => None,
        }
    }

    /// Checks the whole list. Returns the message if the check fails.
    pub(super) fn check_list(self, totals: &Totals) -> Option<String> {
        match self {
            Self::ToolCount(limit) if totals.tools > limit => Some(format!(
                "{} tools, and the limit for all servers together is {limit}; let callers see only the \
                 tools that they need",
                totals.tools
            )),
            Self::ListTokens(limit) if totals.tokens > limit => Some(format!(
                "about {} tokens for all tools, and the client warns above {limit}; let callers see only the tools \
                 that they need",
                totals.tokens
            )),
            _ => None,
        }
    }
}

fn property_names(schema: &Value) -> Option<String> {
    let properties = schema.get("properties").and_then(Value::as_object)?;
    let unportable: Vec<&str> =
        properties.keys().map(String::as_str).filter(|name| !is_portable(name)).collect();
    let message_text =
        "names must consist of at most 64 letters, digits, `_`, `.` and `-`; rename them";
    (!unportable.is_empty())
        .then(|| format!("parameters named {}: {message_text}", name_list(&unportable)))
}

/// Returns `finding`, with the names of the parameters in whose schemas `matches` returns `true` for some schema.
pub(super) fn report_matches(
    schema: &Value,
    finding: &str,
    matches: impl Fn(&Map<String, Value>) -> bool,
) -> Option<String> {
    let any_matches = |schema: &Value| {
        let mut found = false;
        for_each_schema(schema, &mut |map| found |= matches(map));
        found
    };
    if !any_matches(schema) {
        return None;
    }
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let parameters = properties.filter(|(_, property)| any_matches(property));
    let parameters: Vec<&str> = parameters.map(|(name, _)| name.as_str()).collect();
    if parameters.is_empty() {
        return Some(finding.to_owned());
    }
    Some(format!("in {}: {finding}", name_list(&parameters)))
}

/// Formats up to [`MAX_LISTED_NAMES`] names.
pub(super) fn name_list(names: &[&str]) -> String {
    let quoted = |name: &&str| {
        let short: String = name.chars().take(64).collect();
        format!("`{}`", short.escape_debug())
    };
    let first: Vec<String> = names.iter().take(MAX_LISTED_NAMES).map(quoted).collect();
    let more = match names.len().saturating_sub(MAX_LISTED_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", first.join(", "))
}

/// Finds parameters without a type, and lists of types, in the schema that clients receive.
fn single_types(schema: &Value) -> Option<String> {
    let mut untyped = Vec::new();
    for_each_schema(schema, &mut |map| {
        // A condition such as `if` has properties without a type. Clients do not convert such properties.
        if map.contains_key("type") {
            untyped.extend(untyped_properties(map));
        }
    });
    let advice = "so some frameworks fail to load the tool, or all tools";
    if untyped.is_empty() {
        let finding = format!("a list in `type`, {advice}; use `anyOf`");
        return report_matches(schema, &finding, has_type_list);
    }
    Some(format!("no `type` of {}, {advice}; add one", name_list(&untyped)))
}
