//! What holds for every client.

use std::collections::BTreeSet;

use serde_json::Value;

use super::check::{LintedTool, in_places, named};
use super::{Level, Problem, tokens};
use crate::model::finding::Finding;
use crate::model::schema::walk::{depth, for_each_schema};
use crate::model::tool::is_portable;
use crate::wire::percent;

/// A tool with more tokens takes the place of many.
const LARGE_TOOL: usize = 5_000;

/// Models lose their way in what is deeper.
const MAX_DEPTH: usize = 10;

/// What was noticed when the tool was made.
pub(super) fn findings(id: &str, findings: &[Finding]) -> impl Iterator<Item = Problem> {
    findings.iter().filter_map(move |finding| {
        let (level, code) = rank(finding)?;
        Some(problem(id, level, code, finding.to_string()))
    })
}

/// How bad a finding is; `None` where the tool itself is looked at for the same, and better.
fn rank(finding: &Finding) -> Option<(Level, &'static str)> {
    Some(match finding {
        Finding::LongToolName(_) | Finding::UnportableProperty(_) => return None,
        Finding::MissingSafety => (Level::Warning, "missing-safety"),
        Finding::SafetyConflict => (Level::Warning, "safety-conflict"),
        Finding::DefaultMismatch(_) => (Level::Warning, "wrong-default"),
        Finding::UndefinedClass(_) => (Level::Warning, "undefined-class"),
        Finding::SectionWithoutAction(_) => (Level::Warning, "section-without-action"),
        Finding::MissingSection(_) => (Level::Warning, "missing-section"),
        Finding::InvalidMask(..) => (Level::Warning, "no-mask"),
        Finding::UnknownUpstream(_) => (Level::Warning, "no-upstream"),
        Finding::RenamedParam { .. } => (Level::Note, "renamed-parameter"),
        Finding::HiddenRootUnion => (Level::Note, "hidden-root-union"),
        Finding::ReservedId => (Level::Note, "no-url"),
    })
}

/// What is wrong with a tool, whoever its client is.
pub(super) fn of_tool(id: &str, tool: &LintedTool<'_>, size: usize) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut say = |level, code, message: Option<String>| {
        problems.extend(message.map(|message| problem(id, level, code, message)));
    };
    say(Level::Error, "lost-reference", lost_references(tool.schema));
    let is_empty = tool.description.trim().is_empty();
    let words = "no description, which is all that a model has to choose by; write one";
    say(Level::Warning, "no-description", is_empty.then(|| words.to_owned()));
    let weight = tokens(size);
    let words = format!("about {weight} tokens; leave parameters out that nobody needs");
    say(Level::Warning, "large-tool", (weight > LARGE_TOOL).then_some(words));
    say(Level::Note, "undescribed-parameters", undescribed(tool.schema));
    let depth = depth(tool.schema);
    let words =
        format!("{depth} levels of schemas in each other; a flat form is easier for models");
    say(Level::Note, "deep-schema", (depth > MAX_DEPTH).then_some(words));
    say(Level::Note, "inner-property-names", inner_names(tool.schema));
    problems
}

pub(super) fn problem(id: &str, level: Level, code: &'static str, message: String) -> Problem {
    Problem { method: Some(id.to_owned()), level, code, clients: Vec::new(), message }
}

/// References that lead out of the schema, or nowhere in it.
fn lost_references(schema: &Value) -> Option<String> {
    in_places(schema, "a `$ref` that does not lead to a place in the same schema", |map| {
        let target = map.get("$ref").and_then(Value::as_str);
        let leads = |target: &str| match target.strip_prefix('#') {
            Some(pointer) if pointer.starts_with('/') => {
                percent::decoded(pointer).is_some_and(|pointer| schema.pointer(&pointer).is_some())
            }
            // The root, or an anchor.
            Some(_) => true,
            None => false,
        };
        target.is_some_and(|target| !leads(target))
    })
}

fn undescribed(schema: &Value) -> Option<String> {
    let properties = schema.get("properties").and_then(Value::as_object)?;
    let is_described = |property: &Value| {
        let text = property.get("description").and_then(Value::as_str);
        text.is_some_and(|text| !text.trim().is_empty())
    };
    let without = properties.iter().filter(|(_, property)| !is_described(property));
    let without: Vec<&str> = without.map(|(name, _)| name.as_str()).collect();
    (!without.is_empty()).then(|| format!("no description of {}; write one", named(&without)))
}

/// Names below the root that no client is known to refuse, and some may.
fn inner_names(schema: &Value) -> Option<String> {
    let mut odd = BTreeSet::new();
    let mut is_root = true;
    for_each_schema(schema, &mut |map| {
        let properties = map.get("properties").and_then(Value::as_object);
        let names = properties.into_iter().flat_map(|properties| properties.keys());
        odd.extend(names.map(String::as_str).filter(|name| !is_root && !is_portable(name)));
        is_root = false;
    });
    let odd: Vec<&str> = odd.into_iter().collect();
    let words = "not up to 64 letters, digits, `_`, `.` and `-`; some client may refuse that";
    (!odd.is_empty()).then(|| format!("properties named {}: {words}", named(&odd)))
}
