//! Methods that a doc comment marks with `@rpc`, as Festi's are.

use std::collections::HashSet;
use std::path::Path;

use callgate_registry::{MethodRow, is_of_mcp};
use serde_json::Value;

use super::attributes::Marker;
use super::docblock::Docblock;
use super::evaluate::Context;
use super::model::{Class, Kind, Method, short};
use super::reader::{MethodReader, Reader};
use crate::source::{Needed, Proposal, Refusal};

/// Traits may use others, so deep.
const MAX_TRAITS: usize = 16;

/// The methods of a class, or why they are none.
pub(super) fn read(reader: &mut Reader<'_>, class: &Class) -> Vec<Result<Proposal, Refusal>> {
    if class.kind != Kind::Class {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut owners = vec![class];
    let mut seen = HashSet::new();
    while let Some(owner) = owners.pop().filter(|_| seen.len() < MAX_TRAITS) {
        if !seen.insert(owner.name.as_str()) {
            continue;
        }
        owners.extend(reader.tree.traits(owner));
        let at = Context { scope: &owner.scope, class: Some(class) };
        for method in &owner.methods {
            let Some(id) = id(method) else { continue };
            let mut reader = MethodReader { reader: &mut *reader, at, id, line: method.line };
            found.push(reader.rpc(class, method).map_err(|reason| reader.refusal(&reason)));
        }
    }
    found
}

/// What `@rpc` names, or the function itself.
fn id(method: &Method) -> Option<&str> {
    let said = method.doc.first("rpc")?;
    Some(said.split_whitespace().next().unwrap_or(&method.name))
}

impl MethodReader<'_, '_> {
    fn rpc(&mut self, class: &Class, method: &Method) -> Result<Proposal, String> {
        if is_of_mcp(self.id) {
            return Err("it belongs to MCP itself".to_owned());
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
        let signature = self.params(method)?;
        let returns = if signature.is_display { None } else { self.returns(method) };
        let needs = sections(&method.doc)?;
        let row = MethodRow {
            plugin: Some(plugin(class)),
            method: Some(method.name.clone()),
            params: json(signature.params),
            return_type: returns,
            ..self.row(description(&method.doc), marker)
        };
        Ok(Proposal { needs, ..Proposal::new(row, safety).hide(hidden) })
    }

    /// What every method has.
    pub(super) fn row(&self, description: String, marker: Marker) -> MethodRow {
        let annotations = Some(marker.annotations).filter(|annotations| !annotations.is_empty());
        MethodRow {
            rpc_method: self.id.to_owned(),
            title: marker.title,
            description: Some(description).filter(|text| !text.is_empty()),
            annotations: annotations.map(|annotations| Value::Object(annotations).to_string()),
            ..MethodRow::default()
        }
    }
}

/// A list as a column has it; none is nothing.
pub(super) fn json(params: Vec<Value>) -> Option<String> {
    (!params.is_empty()).then(|| Value::Array(params).to_string())
}

/// The text, and what is said of the result.
pub(super) fn description(doc: &Docblock) -> String {
    match (doc.text.as_str(), doc.typed("return").description.as_str()) {
        (text, "") => text.to_owned(),
        ("", returned) => format!("Returns: {returned}"),
        (text, returned) => format!("{text}\n\nReturns: {returned}"),
    }
}

/// `@section users`; the mask is not said there, so it follows from what the method does.
fn sections(doc: &Docblock) -> Result<Option<Vec<(String, Needed)>>, String> {
    if doc.mentions("@section") {
        return Err("its `@section` stands where it is no tag, and without one it is open to all"
            .to_owned());
    }
    let mut sections: Vec<(String, Needed)> = Vec::new();
    for said in doc.all("section") {
        let idents = idents(said);
        if idents.is_empty() {
            return Err("its `@section` names none, and without one it is open to all".to_owned());
        }
        for ident in idents {
            if !sections.iter().any(|(known, _)| known == ident) {
                sections.push((ident.to_owned(), Needed::BySafety));
            }
        }
    }
    Ok((!sections.is_empty()).then_some(sections))
}

/// Names with commas between them; what comes after without one is a description.
fn idents(said: &str) -> Vec<&str> {
    let code = said.lines().map(|line| line.split("//").next().unwrap_or_default());
    let mut idents = Vec::new();
    let mut goes_on = true;
    for word in code.flat_map(str::split_whitespace) {
        if !goes_on && !word.starts_with(',') {
            break;
        }
        idents.extend(word.split(',').filter(|ident| !ident.is_empty()));
        goes_on = word.ends_with(',');
    }
    idents
}

/// The plugin that a class is: `Commits` for `CommitsPlugin` in a directory or a namespace of that
/// name, and else the class itself.
fn plugin(class: &Class) -> String {
    let short = short(&class.name);
    let Some(stem) = short.strip_suffix("Plugin").filter(|stem| !stem.is_empty()) else {
        return short.to_owned();
    };
    let is_its = |part: &str| part.eq_ignore_ascii_case(stem);
    let mut directories =
        Path::new(class.scope.file.as_ref()).iter().filter_map(|one| one.to_str());
    let is_in = directories.any(is_its) || class.scope.namespace.split('\\').any(is_its);
    if is_in { stem.to_owned() } else { short.to_owned() }
}
