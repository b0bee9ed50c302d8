//! Parses YAML documents into JSON values.
//!
//! Plain scalars follow YAML 1.2, so that `no` and `2026-01-01` are strings. Merge keys (`<<`) follow YAML 1.1.

use std::borrow::Cow;
use std::collections::HashMap;

use anyhow::{Context as _, bail, ensure};
use callgate::internal::json_bytes;
use saphyr_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::{Map, Value};

use crate::limits::MAX_DOCUMENT_BYTES;

/// Maximum number of nested lists and mappings. The limit is the same as for JSON.
const MAX_DEPTH: usize = 128;

/// Parses a document. Aliases are replaced by copies of the values that they refer to. The copies count against the
/// maximum size of a document.
pub(crate) fn parse(text: &str) -> anyhow::Result<Value> {
    let mut loader = Loader {
        open: Vec::new(),
        root: None,
        anchors: HashMap::new(),
        bytes_left: usize::try_from(MAX_DOCUMENT_BYTES).unwrap_or(usize::MAX),
    };
    for event in Parser::new_from_str(text) {
        let (event, span) = event?;
        loader.event(event).with_context(|| format!("line {}", span.start.line()))?;
    }
    Ok(loader.root.unwrap_or_default())
}

#[derive(Debug)]
struct Loader {
    /// Lists and mappings that have not ended yet, each with its anchor.
    open: Vec<(Container, usize)>,
    root: Option<Value>,
    /// Values by anchor. The number 0 means no anchor.
    anchors: HashMap<usize, Value>,
    /// Number of bytes that may still be copied.
    bytes_left: usize,
}

#[derive(Debug)]
enum Container {
    List(Vec<Value>),
    /// A mapping, and a key whose value comes next.
    Mapping(Map<String, Value>, Option<String>),
}

impl Loader {
    fn event(&mut self, event: Event<'_>) -> anyhow::Result<()> {
        match event {
            Event::Scalar(text, style, anchor, tag) => self.add(scalar(text, style, tag), anchor),
            Event::SequenceStart(anchor, _) => self.begin(Container::List(Vec::new()), anchor),
            Event::MappingStart(anchor, _) => {
                self.begin(Container::Mapping(Map::new(), None), anchor)
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some((Container::List(items), anchor)) => self.add(Value::Array(items), anchor),
                Some((Container::Mapping(members, _), anchor)) => {
                    self.add(Value::Object(merged(members)?), anchor)
                }
                None => Ok(()),
            },
            Event::Alias(anchor) => {
                let value = self.anchors.get(&anchor).cloned();
                let value = value.context("the alias refers to a value that contains it")?;
                self.check_depth(depth(&value))?;
                self.count_copy(&value)?;
                self.add(value, 0)
            }
            Event::DocumentStart(_) => {
                ensure!(self.root.is_none(), "there is more than one YAML document");
                Ok(())
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
        }
    }

    fn begin(&mut self, container: Container, anchor: usize) -> anyhow::Result<()> {
        self.check_depth(1)?;
        self.open.push((container, anchor));
        Ok(())
    }

    /// Checks that a value of this depth can be added.
    fn check_depth(&self, depth: usize) -> anyhow::Result<()> {
        let is_allowed = self.open.len() + depth <= MAX_DEPTH;
        ensure!(is_allowed, "more than {MAX_DEPTH} nested lists and mappings");
        Ok(())
    }

    /// Adds a complete value to the innermost open container.
    fn add(&mut self, value: Value, anchor: usize) -> anyhow::Result<()> {
        if anchor > 0 {
            self.count_copy(&value)?;
            self.anchors.insert(anchor, value.clone());
        }
        match self.open.last_mut().map(|(container, _)| container) {
            None => self.root = Some(value),
            Some(Container::List(items)) => items.push(value),
            Some(Container::Mapping(members, key)) => match key.take() {
                Some(key) => {
                    ensure!(!members.contains_key(&key), "the key `{key}` occurs twice");
                    members.insert(key, value);
                }
                None => *key = Some(key_text(value)?),
            },
        }
        Ok(())
    }

    /// Counts a copy of a value. Fails if the copies are too large.
    fn count_copy(&mut self, value: &Value) -> anyhow::Result<()> {
        let bytes = json_bytes(value, self.bytes_left).with_context(|| {
            format!("the copies of aliased values have more than {MAX_DOCUMENT_BYTES} bytes")
        })?;
        self.bytes_left -= bytes;
        Ok(())
    }
}

/// Returns the number of nested lists and mappings, at most [`MAX_DEPTH`].
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

fn key_text(key: Value) -> anyhow::Result<String> {
    match key {
        Value::String(text) => Ok(text),
        Value::Array(_) | Value::Object(_) => bail!("a key must not be a list or a mapping"),
        other => Ok(other.to_string()),
    }
}

/// Adds the members of the mappings under `<<`. Members of the mapping itself take precedence, then those of earlier
/// mappings.
fn merged(mut members: Map<String, Value>) -> anyhow::Result<Map<String, Value>> {
    let mappings = match members.shift_remove("<<") {
        None => return Ok(members),
        Some(Value::Array(list)) => list,
        Some(mapping) => vec![mapping],
    };
    for mapping in mappings {
        let Value::Object(mapping) = mapping else {
            bail!("the value of `<<` is neither a mapping nor a list of mappings");
        };
        for (key, value) in mapping {
            members.entry(key).or_insert(value);
        }
    }
    Ok(members)
}

/// Returns the value of a scalar by the core schema of YAML 1.2.
fn scalar(text: Cow<'_, str>, style: ScalarStyle, tag: Option<Cow<'_, Tag>>) -> Value {
    let is_text = tag.is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str");
    if style != ScalarStyle::Plain || is_text {
        return Value::String(text.into_owned());
    }
    match &*text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    number(&text).unwrap_or_else(|| Value::String(text.into_owned()))
}

fn number(text: &str) -> Option<Value> {
    for (prefix, radix) in [("0o", 8), ("0x", 16)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            return u64::from_str_radix(digits, radix).ok().map(Value::from);
        }
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits.contains(|c: char| c.is_ascii_digit())
        && digits.chars().all(|c| c.is_ascii_digit() || ".eE+-".contains(c));
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    if !is_number {
        return None;
    }
    let integer = unsigned.parse::<i64>().map(Value::from);
    let integer = integer.or_else(|_| unsigned.parse::<u64>().map(Value::from)).ok();
    integer.or_else(|| serde_json::Number::from_f64(unsigned.parse().ok()?).map(Value::Number))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_scalars_follow_the_core_schema_of_yaml_1_2() {
        let text = "a: [~, true, no, 12, -3, 0x1f, 0o17, 1.5, -2e3, .5, 1.3.2, 2026-01-01, '1', !!str 1]\n\
                    b: |\n  two\n  lines\n\"c\": {1: one, true: yes}\nd:\n- +7\n- 0123\n- 18446744073709551615\n- e5\n";
        let expected = json!({
            "a": [null, true, "no", 12, -3, 31, 15, 1.5, -2000.0, 0.5, "1.3.2", "2026-01-01", "1", "1"],
            "b": "two\nlines\n",
            "c": {"1": "one", "true": "yes"},
            "d": [7, 123, u64::MAX, "e5"],
        });
        assert_eq!(parse(text).unwrap(), expected);
    }

    #[test]
    fn json_is_parsed_as_yaml() {
        let document =
            json!({"a": [1, {"b": "x: y # z"}], "c": {"d": null, "é": "\u{1F600} \" \\"}});
        assert_eq!(parse(&document.to_string()).unwrap(), document);
    }

    #[test]
    fn aliases_are_replaced_by_copies() {
        let value = parse("a: &x {b: [1]}\nc: *x\nd: [*x, *x]\n").unwrap();
        let x = json!({"b": [1]});
        assert_eq!(value, json!({"a": x, "c": x, "d": [x, x]}));
    }

    #[test]
    fn merge_keys_add_members() {
        let text = "a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc: {<<: *a, x: 0}\nd:\n  <<: [*a, *b]\n  w: 0\n";
        let value = parse(text).unwrap();
        assert_eq!(value["c"], json!({"x": 0, "y": 1}));
        assert_eq!(value["d"], json!({"w": 0, "x": 1, "y": 1, "z": 2}));
    }

    #[test]
    fn invalid_and_oversized_documents_are_refused() {
        let bomb = (1..20).fold(format!("a0: &a0 [{}]\n", "x".repeat(10_000)), |text, n| {
            let aliases = vec![format!("*a{}", n - 1); 10].join(", ");
            format!("{text}a{n}: &a{n} [{aliases}]\n")
        });
        let brackets = |inner: &str| format!("{}{inner}{}", "[".repeat(100), "]".repeat(100));
        let nested_aliases = format!("a: &a {}\nb: &b {}\n", brackets("1"), brackets("*a"));
        for (text, reason) in [
            (&*nested_aliases, "line 2: more than 128 nested lists and mappings"),
            (&*bomb, "the copies of aliased values have more than 67108864 bytes"),
            (&"[".repeat(100_000), "recursion limit exceeded"),
            (&"- ".repeat(200), "line 1: more than 128 nested lists and mappings"),
            ("a: 1\na: 2\n", "line 2: the key `a` occurs twice"),
            ("a: &x [*x]\n", "the alias refers to a value that contains it"),
            ("a: {<<: [{b: 1}, 2]}\n", "line 1: the value of `<<` is neither a mapping nor a list"),
            ("? [a]\n: 1\n", "a key must not be a list or a mapping"),
            ("a: 1\n---\nb: 2\n", "there is more than one YAML document"),
            ("a: *nothing\n", "unknown anchor"),
            ("a: [1\n", "line"),
            ("\t- a\n\t b: c", "line"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(reason), "{}: {error}", text.get(..20).unwrap_or(text));
        }
    }
}
