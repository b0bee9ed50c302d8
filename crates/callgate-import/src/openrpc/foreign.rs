//! Files that stand for what `$ref`s outside of a document name.
//!
//! They become a part of the document, and the references to them references within it, so that all that
//! follows references need not know of them.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use callgate::internal::for_each_reference_mut;
use serde_json::{Map, Value};

use super::references::pointer;

/// The member of a document that has them.
const MEMBER: &str = "x-callgate-references";

/// What a document calls a file, and the file.
pub type Reference = (String, PathBuf);

/// Reads `NAME=FILE`.
pub fn parse_reference(text: &str) -> Result<Reference, String> {
    match text.rsplit_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok((plain(name).to_owned(), file.into()))
        }
        _ => Err("expected such as `./types.json=../types.json`".to_owned()),
    }
}

/// A file, and what documents call it.
#[derive(Debug)]
pub struct Foreign {
    name: String,
    document: Value,
}

impl Foreign {
    /// Reads the file.
    pub fn read((name, file): &Reference) -> anyhow::Result<Self> {
        let text = crate::text::read_file(Path::new(file))?;
        let shown = || format!("`--reference`: `{}` is not JSON", file.display());
        Ok(Self { name: name.clone(), document: serde_json::from_str(&text).with_context(shown)? })
    }

    /// A reference to a part of it, where it is a part of the document.
    fn within(&self, fragment: &str) -> String {
        let name = self.name.replace('~', "~0").replace('/', "~1").replace('%', "%25");
        format!("#/{MEMBER}/{name}{fragment}")
    }
}

/// Makes files a part of the document; the names of those that nothing refers to come back.
pub(super) fn embed<'f>(document: &mut Value, files: &'f [Foreign]) -> Vec<&'f str> {
    let mut idle: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    point_within(document, files, None, &mut idle);
    // The examples of a method may be references, unlike those of a schema.
    let methods = document.get_mut("methods").and_then(Value::as_array_mut);
    for method in methods.into_iter().flatten() {
        let examples = method.get_mut("examples").and_then(Value::as_array_mut);
        for example in examples.into_iter().flatten() {
            point_within(example, files, None, &mut idle);
        }
    }
    let mut embedded = Map::new();
    for file in files {
        let mut copy = file.document.clone();
        point_within(&mut copy, files, Some(file), &mut idle);
        embedded.insert(file.name.clone(), copy);
    }
    if let (Value::Object(document), false) = (document, files.is_empty()) {
        document.insert(MEMBER.to_owned(), Value::Object(embedded));
    }
    idle
}

/// Makes references to files, and those within the file `own`, references within the whole document.
fn point_within(part: &mut Value, files: &[Foreign], own: Option<&Foreign>, idle: &mut Vec<&str>) {
    for_each_reference_mut(part, &mut |_, reference| {
        let (name, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let file = if name.is_empty() {
            // Otherwise it is into the schema that it is in, wherever that stands.
            let is_here = |own: &&Foreign| {
                pointer(reference).is_ok_and(|pointer| own.document.pointer(&pointer).is_some())
            };
            own.filter(is_here)
        } else {
            let file = files.iter().find(|file| file.name == plain(name));
            idle.retain(|idle| file.is_none_or(|file| file.name != *idle));
            file
        };
        if let Some(file) = file {
            *reference = file.within(fragment);
        }
    });
}

/// `./types.json` is `types.json`.
fn plain(name: &str) -> &str {
    name.strip_prefix("./").unwrap_or(name)
}
