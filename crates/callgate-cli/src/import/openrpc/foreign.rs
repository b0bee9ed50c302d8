//! Files that stand for what `$ref`s outside of a document name.
//!
//! They become a part of the document, and the references to them references within it, so that all that
//! follows references need not know of them.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Map, Value, json};

use super::references::pointer;

/// The member of a document that has them.
const MEMBER: &str = "x-callgate-references";

/// What a document calls a file, and the file.
pub(crate) type Reference = (String, PathBuf);

/// Reads `NAME=FILE`.
pub(crate) fn reference(text: &str) -> Result<Reference, String> {
    match text.rsplit_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok((plain(name).to_owned(), file.into()))
        }
        _ => Err("expected such as `./types.json=../types.json`".to_owned()),
    }
}

/// A file, and what documents call it.
#[derive(Debug)]
pub(crate) struct Foreign {
    name: String,
    document: Value,
}

impl Foreign {
    pub(crate) fn read((name, file): &Reference) -> anyhow::Result<Self> {
        let text = crate::import::read(Path::new(file))?;
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
    let mut used = vec![false; files.len()];
    let mut embedded = Map::new();
    rewrite(document, &mut Rewriting { files, used: &mut used, own: None });
    for file in files {
        let mut copy = file.document.clone();
        rewrite(&mut copy, &mut Rewriting { files, used: &mut used, own: Some(file) });
        embedded.insert(file.name.clone(), copy);
    }
    if let (Value::Object(document), false) = (document, files.is_empty()) {
        document.insert(MEMBER.to_owned(), Value::Object(embedded));
    }
    let idle = files.iter().zip(used).filter(|(_, is_used)| !is_used);
    idle.map(|(file, _)| file.name.as_str()).collect()
}

/// What references are rewritten for.
struct Rewriting<'a> {
    files: &'a [Foreign],
    used: &'a mut [bool],
    /// The file that they are in, unless that is the document.
    own: Option<&'a Foreign>,
}

impl Rewriting<'_> {
    /// A reference as one within the whole, if it is to be another.
    fn rewritten(&mut self, reference: &str) -> Option<String> {
        let (name, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        if name.is_empty() {
            let own = self.own?;
            // Otherwise it is into the schema that it is in, wherever that stands.
            own.document.pointer(&pointer(reference).ok()?)?;
            return Some(own.within(fragment));
        }
        let is_it = |(file, _): &(&Foreign, &mut bool)| file.name == plain(name);
        let (file, used) = self.files.iter().zip(self.used.iter_mut()).find(is_it)?;
        *used = true;
        Some(file.within(fragment))
    }
}

/// `./types.json` is `types.json`.
fn plain(name: &str) -> &str {
    name.strip_prefix("./").unwrap_or(name)
}

fn rewrite(part: &mut Value, rewriting: &mut Rewriting<'_>) {
    match part {
        Value::Object(members) => rewrite_members(members, rewriting),
        Value::Array(items) => items.iter_mut().for_each(|item| rewrite(item, rewriting)),
        _ => {}
    }
}

fn rewrite_members(members: &mut Map<String, Value>, rewriting: &mut Rewriting<'_>) {
    for (key, value) in members {
        match (key.as_str(), &mut *value) {
            ("$ref", Value::String(reference)) => {
                if let Some(other) = rewriting.rewritten(reference) {
                    *value = json!(other);
                }
            }
            // Data, which may look like a reference.
            ("const" | "enum" | "default" | "example", _) => {}
            (_, value) => rewrite(value, rewriting),
        }
    }
}
