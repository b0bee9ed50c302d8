//! Files that external references of a document point to.
//!
//! The files are embedded into the document, and references to them become references within the document.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use callgate::internal::for_each_reference_mut;
use serde_json::{Map, Value};

use super::references::pointer;
use crate::text::read_file;

/// Name of the member of the document that contains the files.
const MEMBER: &str = "x-callgate-references";

/// The name that references use for a file, and the path of the file.
pub type Reference = (String, PathBuf);

/// Parses `NAME=FILE`.
pub fn parse_reference(text: &str) -> Result<Reference, String> {
    match text.rsplit_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok((normalized(name).to_owned(), file.into()))
        }
        _ => Err("expected `NAME=FILE`, such as `./types.json=../types.json`".to_owned()),
    }
}

/// A file, and its name in references.
#[derive(Debug)]
pub struct ExternalFile {
    name: String,
    document: Value,
}

impl ExternalFile {
    /// Reads the file.
    pub fn read((name, file): &Reference) -> anyhow::Result<Self> {
        let text = read_file(Path::new(file))?;
        let context = || format!("`--reference`: `{}`", file.display());
        Ok(Self { name: name.clone(), document: super::parse(&text).with_context(context)? })
    }

    /// Returns the `$ref` that points to a part of the embedded file.
    fn embedded_reference(&self, fragment: &str) -> String {
        let name = self.name.replace('~', "~0").replace('/', "~1").replace('%', "%25");
        format!("#/{MEMBER}/{name}{fragment}")
    }
}

/// Embeds files into the document. Returns the names of files to which nothing refers.
pub(super) fn embed<'f>(document: &mut Value, files: &'f [ExternalFile]) -> Vec<&'f str> {
    let mut unused: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    redirect(document, files, None, &mut unused);
    // Unlike the examples of a schema, the examples of a method may be references.
    let methods = document.get_mut("methods").and_then(Value::as_array_mut);
    for method in methods.into_iter().flatten() {
        let examples = method.get_mut("examples").and_then(Value::as_array_mut);
        for example in examples.into_iter().flatten() {
            redirect(example, files, None, &mut unused);
        }
    }
    let mut embedded = Map::new();
    for file in files {
        let mut copy = file.document.clone();
        redirect(&mut copy, files, Some(file), &mut unused);
        embedded.insert(file.name.clone(), copy);
    }
    if let (Value::Object(document), false) = (document, files.is_empty()) {
        document.insert(MEMBER.to_owned(), Value::Object(embedded));
    }
    unused
}

/// Rewrites references to files so that they point into the document. References within the file `current` are
/// rewritten too.
fn redirect(
    part: &mut Value,
    files: &[ExternalFile],
    current: Option<&ExternalFile>,
    unused: &mut Vec<&str>,
) {
    for_each_reference_mut(part, &mut |_, reference| {
        let (name, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let file = if name.is_empty() {
            // A reference that cannot be resolved in the file stays unchanged. It is relative to the schema that
            // contains the reference.
            let resolves = |current: &&ExternalFile| {
                pointer(reference).is_ok_and(|pointer| current.document.pointer(&pointer).is_some())
            };
            current.filter(resolves)
        } else {
            let file = files.iter().find(|file| file.name == normalized(name));
            unused.retain(|unused| file.is_none_or(|file| file.name != *unused));
            file
        };
        if let Some(file) = file {
            *reference = file.embedded_reference(fragment);
        }
    });
}

/// Returns `types.json` for `./types.json`.
fn normalized(name: &str) -> &str {
    name.strip_prefix("./").unwrap_or(name)
}
