//! Checks that apply to every client.

use std::collections::BTreeSet;

use serde_json::Value;

use super::client_check::{FIRST_PAGE_ONLY, LintedTool, name_list, report_matches};
use super::invisible::find_in;
use super::{Level, LintOptions, Problem, Totals, tokens};
use crate::catalog::{Catalog, Entry};
use crate::mcp::MAX_PAGE_BYTES;
use crate::model::arguments::{CompiledInput, ParamStyle};
use crate::model::finding::Finding;
use crate::model::schema::walk::{depth, for_each_schema};
use crate::model::tool::is_portable;
use crate::wire::invisible::invisible_characters;
use crate::wire::percent;

/// Number of tokens of a tool above which a warning is reported.
const LARGE_TOOL: usize = 5_000;

/// Nesting depth of a schema above which a note is reported.
const MAX_DEPTH: usize = 10;

/// Maximum number of places that a message lists.
const MAX_PLACES: usize = 5;

/// Converts findings of the catalog to problems.
pub(super) fn findings(id: &str, findings: &[Finding]) -> impl Iterator<Item = Problem> {
    findings.iter().filter_map(move |finding| {
        let (level, code) = classify(finding)?;
        Some(problem(id, level, code, finding.to_string()))
    })
}

/// Returns the severity and the code of a finding, or `None` if another check reports the finding in more detail.
fn classify(finding: &Finding) -> Option<(Level, &'static str)> {
    Some(match finding {
        Finding::LongToolName(_) | Finding::UnportableProperty(_) => return None,
        Finding::MissingSafety => (Level::Warning, "missing-safety"),
        Finding::SafetyConflict => (Level::Warning, "safety-conflict"),
        Finding::DefaultMismatch(_) => (Level::Warning, "wrong-default"),
        Finding::UncheckedPattern(_) => (Level::Warning, "unchecked-pattern"),
        Finding::UndefinedClass(_) => (Level::Warning, "undefined-class"),
        Finding::NoSection => (Level::Warning, "no-section"),
        Finding::SectionWithoutAction(_) => (Level::Warning, "section-without-action"),
        Finding::MissingSection(_) => (Level::Warning, "missing-section"),
        Finding::InvalidMask(..) => (Level::Warning, "no-mask"),
        Finding::UnknownUpstream(_) => (Level::Warning, "no-upstream"),
        Finding::GuessedSafety => (Level::Note, "guessed-safety"),
        Finding::RenamedParam { .. } => (Level::Note, "renamed-parameter"),
        Finding::HiddenRootUnion => (Level::Note, "hidden-root-union"),
        Finding::ReservedId => (Level::Note, "no-url"),
        Finding::NameCollision => (Level::Note, "name-collision"),
    })
}

pub(super) fn check_tool(id: &str, tool: &LintedTool<'_>, size: usize) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut report_if = |level, code, message: Option<String>| {
        problems.extend(message.map(|message| problem(id, level, code, message)));
    };
    report_if(Level::Error, "lost-reference", unresolved_references(tool.schema));
    let is_empty = tool.description.trim().is_empty();
    let message_text = "no description; models choose tools by their descriptions, so write one";
    report_if(Level::Warning, "no-description", is_empty.then(|| message_text.to_owned()));
    let token_count = tokens(size);
    let message_text = format!("about {token_count} tokens; remove unneeded parameters");
    report_if(Level::Warning, "large-tool", (token_count > LARGE_TOOL).then_some(message_text));
    report_if(Level::Note, "undescribed-parameters", undescribed_parameters(tool.schema));
    let depth = depth(tool.schema);
    let message_text =
        format!("{depth} nested levels in the schema; models handle flat schemas better");
    report_if(Level::Note, "deep-schema", (depth > MAX_DEPTH).then_some(message_text));
    report_if(Level::Note, "inner-property-names", nested_names(tool.schema));
    problems
}

/// Checks that all tools are on the first page of `tools/list`.
pub(super) fn pages(totals: &Totals, page_size: usize) -> Option<Problem> {
    let excess = if totals.tools > page_size {
        format!(
            "{} tools, and a page of `tools/list` has {page_size} (`mcp_page_size`)",
            totals.tools
        )
    } else if totals.bytes > MAX_PAGE_BYTES {
        let limit = MAX_PAGE_BYTES / (1024 * 1024);
        format!("{} bytes, and a page of `tools/list` has up to {limit} MiB", totals.bytes)
    } else {
        return None;
    };
    let message = format!(
        "{excess}; {FIRST_PAGE_ONLY} read only the first page, and Qwen Code and google-genai read at most 100 tools; \
         let callers see only the tools that they need"
    );
    let (level, code, clients) = (Level::Error, "first-page", Vec::new());
    Some(Problem { method: None, level, code, clients, message })
}

/// Finds a call that the schema allows but that cannot be sent by position, because a
/// parameter before the last given one is absent.
pub(super) fn unsendable(
    catalog: &Catalog,
    entry: &Entry,
    options: &LintOptions<'_>,
) -> Option<Problem> {
    let configured = options.param_styles.get(entry.upstream()).copied();
    let style = ParamStyle::resolve(entry.param_style, configured);
    if style != ParamStyle::Positional {
        return None;
    }
    let input = CompiledInput::compile(&catalog.check_schema(entry)).ok()?;
    let (given, absent) = input.unsendable()?;
    let message = format!(
        "if `{absent}` is omitted and the later parameter `{given}` is given, the call cannot be sent by position; set \
         `params_by` to `position-null` or `either`, whichever the service accepts"
    );
    Some(problem(entry.id().as_str(), Level::Error, "unsendable-call", message))
}

/// Finds invisible characters in the id and in all texts of a tool.
pub(super) fn invisible(id: &str, tool: &Value) -> Option<Problem> {
    let in_id = invisible_characters(id).next().map(|(_, c)| ("its id".to_owned(), c));
    let found: Vec<_> = in_id.into_iter().chain(find_in(tool)).collect();
    let listed = found.iter().take(MAX_PLACES);
    let listed: Vec<String> =
        listed.map(|(place, c)| format!("U+{:04X} in {place}", u32::from(*c))).collect();
    let more = match found.len().saturating_sub(MAX_PLACES) {
        0 => String::new(),
        more => format!(" and {more} more places"),
    };
    let message = format!(
        "invisible characters, which models read but people do not see: {}{more}; remove them",
        listed.join(", ")
    );
    (!found.is_empty()).then(|| problem(id, Level::Error, "invisible-character", message))
}

pub(super) fn problem(id: &str, level: Level, code: &'static str, message: String) -> Problem {
    Problem { method: Some(id.to_owned()), level, code, clients: Vec::new(), message }
}

/// Finds references that cannot be resolved within the schema.
fn unresolved_references(schema: &Value) -> Option<String> {
    report_matches(schema, "a `$ref` that cannot be resolved in the schema", |map| {
        let target = map.get("$ref").and_then(Value::as_str);
        let resolves = |target: &str| match target.strip_prefix('#') {
            Some(pointer) if pointer.starts_with('/') => {
                percent::decoded(pointer).is_some_and(|pointer| schema.pointer(&pointer).is_some())
            }
            // A reference to the root or to an anchor.
            Some(_) => true,
            None => false,
        };
        target.is_some_and(|target| !resolves(target))
    })
}

fn undescribed_parameters(schema: &Value) -> Option<String> {
    let properties = schema.get("properties").and_then(Value::as_object)?;
    let is_described = |property: &Value| {
        let text = property.get("description").and_then(Value::as_str);
        text.is_some_and(|text| !text.trim().is_empty())
    };
    let undescribed = properties.iter().filter(|(_, property)| !is_described(property));
    let undescribed: Vec<&str> = undescribed.map(|(name, _)| name.as_str()).collect();
    (!undescribed.is_empty())
        .then(|| format!("no description of {}; write one", name_list(&undescribed)))
}

/// Finds nested property names that some clients may reject.
fn nested_names(schema: &Value) -> Option<String> {
    let mut unportable = BTreeSet::new();
    let mut is_root = true;
    for_each_schema(schema, &mut |map| {
        let properties = map.get("properties").and_then(Value::as_object);
        let names = properties.into_iter().flat_map(|properties| properties.keys());
        unportable.extend(names.map(String::as_str).filter(|name| !is_root && !is_portable(name)));
        is_root = false;
    });
    let unportable: Vec<&str> = unportable.into_iter().collect();
    let message_text = "names must consist of at most 64 letters, digits, `_`, `.` and `-`, or some clients may reject the tool";
    (!unportable.is_empty())
        .then(|| format!("properties named {}: {message_text}", name_list(&unportable)))
}
