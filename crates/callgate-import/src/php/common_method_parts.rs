//! The parts of a method that doc comments and attributes have in common.

use std::cell::Cell;

use callgate::internal::json_bytes;
use callgate::model::{Safety, TypeExpr};
use callgate_registry::MethodRow;
use serde_json::{Map, Value, json};

use super::evaluate::evaluate;
use super::symbols::{Context, Symbols};
use super::syntax::{Argument, Docblock, Expression, Method, Param, TypedTag, argument};
use super::types;
use crate::limits::MAX_METHOD_BYTES;
use crate::source::{Refusal, declared_safety};

/// Maximum number of notes in the report.
const MAX_NOTES: usize = 40;

/// Reads the methods of all classes.
#[derive(Debug)]
pub(super) struct Reader<'t> {
    pub(super) symbols: &'t Symbols,
    pub(super) notes: Vec<String>,
    /// Number of notes that the report omits, because there are more than [`MAX_NOTES`].
    pub(super) omitted_notes: usize,
    /// Types of parameters and results.
    pub(super) types: Vec<TypeExpr>,
    /// Number of methods that name permissions of Drupal.
    pub(super) permissions: usize,
}

impl<'t> Reader<'t> {
    pub(super) fn new(symbols: &'t Symbols) -> Self {
        Self { symbols, notes: Vec::new(), omitted_notes: 0, types: Vec::new(), permissions: 0 }
    }

    pub(super) fn note(&mut self, note: String) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(note);
        } else {
            self.omitted_notes += 1;
        }
    }
}

/// Reads one method.
pub(super) struct MethodReader<'r, 't> {
    pub(super) reader: &'r mut Reader<'t>,
    pub(super) context: Context<'r>,
    pub(super) id: &'r str,
    pub(super) line: usize,
    /// Number of bytes that constants of the method may still use.
    bytes_left: Cell<usize>,
}

/// The attribute `#[McpTool]`.
#[derive(Debug, Default)]
pub(super) struct Marker {
    pub(super) is_present: bool,
    pub(super) title: Option<String>,
    pub(super) annotations: Map<String, Value>,
}

impl<'r, 't> MethodReader<'r, 't> {
    pub(super) fn new(
        reader: &'r mut Reader<'t>,
        context: Context<'r>,
        id: &'r str,
        line: usize,
    ) -> Self {
        Self { reader, context, id, line, bytes_left: Cell::new(MAX_METHOD_BYTES) }
    }

    pub(super) fn refusal(&self, reason: &str) -> Refusal {
        Refusal::new(self.id, format!("{}:{}: {reason}", self.context.scope.file, self.line))
    }

    pub(super) fn note(&mut self, note: &str) {
        let (file, line, id) = (&self.context.scope.file, self.line, self.id);
        self.reader.note(format!("note: {file}:{line} `{id}`: {note}"));
    }

    /// Returns the value of an expression. Returns `None` if the expression is not constant, or if all values that were
    /// read for this method are too large together.
    pub(super) fn value(&self, expression: &Expression) -> Option<Value> {
        let value = evaluate(self.context, expression)?;
        let bytes_left = self.bytes_left.get();
        self.bytes_left.set(bytes_left - json_bytes(&value, bytes_left)?);
        Some(value)
    }

    /// Returns an argument that is a constant string.
    pub(super) fn text(
        &mut self,
        arguments: &[Argument],
        name: &str,
        position: usize,
    ) -> Option<String> {
        match self.value(argument(arguments, name, position)?) {
            Some(Value::String(text)) => Some(text),
            Some(Value::Null) => None,
            _ => {
                self.note(&format!("`{name}` is not a constant string, so it is ignored"));
                None
            }
        }
    }

    fn ty(&mut self, native: Option<&str>, documented: Option<&str>) -> Result<TypeExpr, String> {
        let result = types::read_both(self.context, native, documented);
        let (ty, problem) = result.map_err(|error| error.to_string())?;
        if let Some(error) = problem {
            let fallback =
                if native.is_some() { "using the type in the signature" } else { "using `mixed`" };
            self.note(&format!("the doc comment's {error}; {fallback}"));
        }
        Ok(ty)
    }

    /// Returns the parameters without a leading `Response`, and whether there was one. If there was, the result of the
    /// method is the `Response`, not the value that the PHP function returns.
    pub(super) fn params(&mut self, method: &Method) -> Result<(Vec<Value>, bool), String> {
        let mut tags: Vec<TypedTag> = method.doc.all("param").map(TypedTag::parse).collect();
        let (mut params, mut fills_response) = (Vec::new(), false);
        for (number, param) in method.params.iter().enumerate() {
            let tag = tag_of(&mut tags, &param.name, number);
            let ty = self
                .ty(param.ty.as_deref(), tag.ty.as_deref())
                .map_err(|error| format!("parameter `${}`: {error}", param.name))?;
            if number == 0 && types::is_response(&ty) {
                fills_response = true;
            } else {
                params.push(self.param(param, ty, &tag.description));
            }
        }
        for name in tags.into_iter().filter_map(|tag| tag.name) {
            self.note(&format!("`@param ${name}` names no parameter"));
        }
        Ok((params, fills_response))
    }

    fn param(&mut self, param: &Param, mut ty: TypeExpr, description: &str) -> Value {
        let name = &param.name;
        let default = param.default.as_ref().map(|default| self.value(default));
        match default {
            Some(Some(Value::Null)) => ty = ty.or_null(),
            Some(None) => {
                self.note(&format!("the default of `${name}` is not constant, so it is omitted"));
            }
            _ => {}
        }
        let suffix = if param.is_variadic { "..." } else { "" };
        let is_optional = param.default.is_some() || param.is_variadic;
        let entry = object([
            ("name", Some(json!(name))),
            ("type", Some(json!(format!("{ty}{suffix}")))),
            ("description", (!description.is_empty()).then(|| json!(description))),
            ("optional", is_optional.then(|| json!(true))),
            ("default", default.flatten()),
        ]);
        self.reader.types.push(ty);
        entry
    }

    /// Returns the type of the result, if it is known.
    pub(super) fn returns(&mut self, method: &Method) -> Option<String> {
        let documented = method.doc.typed("return").ty;
        match self.ty(method.returns.as_deref(), documented.as_deref()) {
            Ok(TypeExpr::Mixed) => None,
            Ok(ty) => {
                let text = ty.to_string();
                self.reader.types.push(ty);
                Some(text)
            }
            Err(error) => {
                self.note(&format!("the type of the result is not known: {error}"));
                None
            }
        }
    }

    pub(super) fn safety(
        &mut self,
        doc: &Docblock,
        annotations: &mut Map<String, Value>,
    ) -> Option<Safety> {
        let declared = declared_safety(annotations);
        let is_read_only = doc.has("mcpReadOnly") || declared == Some(Safety::ReadOnly);
        let is_destructive = doc.has("mcpDestructive") || declared == Some(Safety::Destructive);
        if is_read_only && is_destructive {
            self.note("marked as read-only and as destructive; imported as destructive");
        }
        is_destructive.then_some(Safety::Destructive).or(is_read_only.then_some(Safety::ReadOnly))
    }

    pub(super) fn row(&self, description: String, params: Vec<Value>, marker: Marker) -> MethodRow {
        let annotations = Some(marker.annotations).filter(|annotations| !annotations.is_empty());
        MethodRow {
            rpc_method: self.id.to_owned(),
            title: marker.title,
            description: Some(description).filter(|text| !text.is_empty()),
            params: (!params.is_empty()).then(|| Value::Array(params).to_string()),
            annotations: annotations.map(|annotations| Value::Object(annotations).to_string()),
            ..MethodRow::default()
        }
    }
}

/// Returns an object of the members that have a value.
pub(super) fn object<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    let members = members.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Value::Object(members.collect())
}

/// Returns the text of a doc comment and its description of the result.
pub(super) fn description(doc: &Docblock) -> String {
    match (doc.text.as_str(), doc.typed("return").description.as_str()) {
        (text, "") => text.to_owned(),
        ("", returned) => format!("Returns: {returned}"),
        (text, returned) => format!("{text}\n\nReturns: {returned}"),
    }
}

/// Takes the tag of a parameter: the tag with the name of the parameter, or an unnamed tag at the parameter's position.
fn tag_of(tags: &mut [TypedTag], name: &str, number: usize) -> TypedTag {
    match tags.iter_mut().find(|tag| tag.name.as_deref() == Some(name)) {
        Some(tag) => std::mem::take(tag),
        None => tags.get(number).filter(|tag| tag.name.is_none()).cloned().unwrap_or_default(),
    }
}
