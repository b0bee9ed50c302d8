//! Methods that a doc comment marks with `@rpc`, as in Festi.

use std::collections::HashSet;
use std::path::Path;

use callgate_registry::{MethodRow, is_protocol_method};

use super::common_method_parts::{MethodReader, Reader, description};
use super::symbols::Context;
use super::syntax::{Class, Docblock, Kind, Method, short};
use crate::source::{Proposal, Refusal, RequiredMask};

/// Maximum number of traits that a class uses, directly or through other traits.
const MAX_TRAITS: usize = 16;

/// Returns the methods of a class and of its traits.
pub(super) fn read(reader: &mut Reader<'_>, class: &Class) -> Vec<Result<Proposal, Refusal>> {
    if class.kind != Kind::Class {
        return Vec::new();
    }
    let mut proposals = Vec::new();
    let mut owners = vec![class];
    let mut visited = HashSet::new();
    while let Some(owner) = owners.pop().filter(|_| visited.len() < MAX_TRAITS) {
        if !visited.insert(owner.name.as_str()) {
            continue;
        }
        owners.extend(reader.symbols.traits(owner));
        let context = Context { scope: &owner.scope, ..reader.symbols.context_of(class) };
        for method in &owner.methods {
            let Some(tag) = method.doc.first("rpc") else { continue };
            let id = tag.split_whitespace().next().unwrap_or(&method.name);
            let mut reader = MethodReader::new(&mut *reader, context, id, method.line);
            proposals.push(
                reader.read_doc_comment(class, method).map_err(|reason| reader.refusal(&reason)),
            );
        }
    }
    proposals
}

impl MethodReader<'_, '_> {
    fn read_doc_comment(&mut self, class: &Class, method: &Method) -> Result<Proposal, String> {
        if is_protocol_method(self.id) {
            return Err("the name is reserved for MCP".to_owned());
        }
        if !method.is_public {
            return Err(format!("`{}` is not public", method.name));
        }
        if method.is_abstract {
            return Err(format!("`{}` has no body", method.name));
        }
        let mut marker = self.marker(&method.attributes)?;
        let safety = self.safety(&method.doc, &mut marker.annotations);
        let hidden = method.doc.has("deprecated").then_some("deprecated");
        let (params, fills_response) = self.params(method)?;
        let row = MethodRow {
            plugin: Some(plugin(class)),
            method: Some(method.name.clone()),
            return_type: if fills_response { None } else { self.returns(method) },
            ..self.row(description(&method.doc), params, marker)
        };
        let needs = sections(&method.doc)?;
        Ok(Proposal { needs, ..Proposal::new(row, safety).hide(hidden) })
    }
}

/// Returns the sections in `@section` tags. The tags specify no masks, so each mask depends on the safety of the method.
fn sections(doc: &Docblock) -> Result<Option<Vec<(String, RequiredMask)>>, String> {
    if doc.mentions("@section") {
        return Err(
            "its `@section` is not at the start of a line; if the tag were ignored, every caller could call the method"
                .to_owned(),
        );
    }
    // If `@mcpDestructive` were missed, the required mask could be lower.
    for name in ["section", "mcpDestructive"] {
        if let Some(tag) = doc.misspelled(name) {
            return Err(format!(
                "its tag `@{tag}` is unknown; if it is a misspelled `@{name}`, callers would need less access than intended"
            ));
        }
    }
    let mut sections: Vec<(String, RequiredMask)> = Vec::new();
    for tag in doc.all("section") {
        let idents = idents(tag);
        if idents.is_empty() {
            return Err("its `@section` names no section; if the tag were ignored, every caller could call the method"
                .to_owned());
        }
        for ident in idents {
            if !sections.iter().any(|(section, _)| section == ident) {
                sections.push((ident.to_owned(), RequiredMask::BySafety));
            }
        }
    }
    Ok((!sections.is_empty()).then_some(sections))
}

/// Returns names that are separated by commas. Text that follows a name without a comma is a description.
fn idents(tag: &str) -> Vec<&str> {
    let code = tag.lines().map(|line| line.split("//").next().unwrap_or_default());
    let mut idents = Vec::new();
    let mut continues = true;
    for word in code.flat_map(str::split_whitespace) {
        if !continues && !word.starts_with(',') {
            break;
        }
        idents.extend(word.split(',').filter(|ident| !ident.is_empty()));
        continues = word.ends_with(',');
    }
    idents
}

/// Returns the plugin of a class. For `CommitsPlugin` in a directory or a namespace `Commits`, this is `Commits`.
/// Otherwise it is the name of the class.
fn plugin(class: &Class) -> String {
    let short = short(&class.name);
    let Some(stem) = short.strip_suffix("Plugin").filter(|stem| !stem.is_empty()) else {
        return short.to_owned();
    };
    let is_stem = |part: &str| part.eq_ignore_ascii_case(stem);
    let mut directories =
        Path::new(class.scope.file.as_ref()).iter().filter_map(|part| part.to_str());
    let has_matching_parent =
        directories.any(is_stem) || class.scope.namespace.split('\\').any(is_stem);
    if has_matching_parent { stem.to_owned() } else { short.to_owned() }
}
