//! What the readers of methods share: the declarations, what is asked for, and what is to be told.

use callgate::model::{Safety, TypeExpr};
use serde_json::{Map, Value, json};

use super::docblock::{Docblock, Typed};
use super::evaluate::{Context, evaluate};
use super::expression::{Argument, Expression, argument};
use super::model::{Method, Param};
use super::tree::Tree;
use super::types;
use crate::source::{Refusal, declared_safety};

/// Reads methods out of declarations.
#[derive(Debug)]
pub(super) struct Reader<'t> {
    pub(super) tree: &'t Tree,
    pub(super) notes: Vec<String>,
    /// All types that methods take and give.
    pub(super) types: Vec<TypeExpr>,
    /// How many methods name permissions of Drupal.
    pub(super) permissions: usize,
}

/// Reads one method.
pub(super) struct MethodReader<'r, 't> {
    pub(super) reader: &'r mut Reader<'t>,
    pub(super) at: Context<'r>,
    pub(super) id: &'r str,
    pub(super) line: usize,
}

impl MethodReader<'_, '_> {
    pub(super) fn refusal(&self, reason: &str) -> Refusal {
        Refusal::new(self.id, format!("{}:{}: {reason}", self.at.scope.file, self.line))
    }

    pub(super) fn note(&mut self, what: &str) {
        let (file, line, id) = (&self.at.scope.file, self.line, self.id);
        self.reader.notes.push(format!("note: {file}:{line} `{id}`: {what}"));
    }

    pub(super) fn value(&self, expression: &Expression) -> Option<Value> {
        evaluate(self.reader.tree, self.at, expression)
    }

    /// A text that is constant, translated or not.
    pub(super) fn text(&mut self, all: &[Argument], name: &str, place: usize) -> Option<String> {
        match self.value(argument(all, name, place)?) {
            Some(Value::String(text)) => Some(text),
            Some(Value::Null) => None,
            _ => {
                self.note(&format!("`{name}` is not a constant text, so it is not taken"));
                None
            }
        }
    }

    /// What a signature and a doc comment say of a type; nothing said is `mixed`.
    fn ty(&mut self, native: Option<&str>, said: Option<&str>) -> Result<TypeExpr, String> {
        let read = types::read_both(self.reader.tree, self.at, native, said);
        let (ty, problem) = read.map_err(|error| error.to_string())?;
        if let Some(error) = problem {
            let taken =
                if native.is_some() { "the signature's is taken" } else { "taken as `mixed`" };
            self.note(&format!("the doc comment's {error}; {taken}"));
        }
        Ok(ty)
    }

    /// The parameters of a function as the registry has them, less a `Response` that comes first.
    pub(super) fn params(&mut self, method: &Method) -> Result<Signature, String> {
        let mut said: Vec<Typed> = method.doc.all("param").map(Typed::parse).collect();
        let mut signature = Signature::default();
        for (number, param) in method.params.iter().enumerate() {
            let said = said_of(&mut said, &param.name, number);
            let ty = self
                .ty(param.ty.as_deref(), said.ty.as_deref())
                .map_err(|error| format!("parameter `${}`: {error}", param.name))?;
            if number == 0 && types::is_response(&ty) {
                signature.is_display = true;
            } else {
                signature.params.push(self.param(param, ty, &said.description));
            }
        }
        for name in said.into_iter().filter_map(|said| said.name) {
            self.note(&format!("`@param ${name}` is no parameter of it"));
        }
        Ok(signature)
    }

    fn param(&mut self, param: &Param, mut ty: TypeExpr, description: &str) -> Value {
        let name = &param.name;
        let default = param.default.as_ref().map(|default| self.value(default));
        match default {
            Some(Some(Value::Null)) => ty = ty.or_null(),
            Some(None) => {
                self.note(&format!("the default of `${name}` is not constant, so it is not shown"));
            }
            _ => {}
        }
        let dots = if param.is_variadic { "..." } else { "" };
        let is_optional = param.default.is_some() || param.is_variadic;
        let entry = object([
            ("name", Some(json!(name))),
            ("type", Some(json!(format!("{ty}{dots}")))),
            ("description", (!description.is_empty()).then(|| json!(description))),
            ("optional", is_optional.then(|| json!(true))),
            ("default", default.flatten()),
        ]);
        self.reader.types.push(ty);
        entry
    }

    /// The type of the result, where it says something.
    pub(super) fn returns(&mut self, method: &Method) -> Option<String> {
        let said = method.doc.typed("return").ty;
        match self.ty(method.returns.as_deref(), said.as_deref()) {
            Ok(TypeExpr::Mixed) => None,
            Ok(ty) => {
                let text = ty.to_string();
                self.reader.types.push(ty);
                Some(text)
            }
            Err(error) => {
                self.note(&format!("what it returns is not known: {error}"));
                None
            }
        }
    }

    /// Whether it changes something, as far as that is said.
    pub(super) fn safety(
        &mut self,
        doc: &Docblock,
        annotations: &mut Map<String, Value>,
    ) -> Option<Safety> {
        let hinted = declared_safety(annotations);
        let reads = doc.has("mcpReadOnly") || hinted == Some(Safety::ReadOnly);
        let changes = doc.has("mcpDestructive") || hinted == Some(Safety::Destructive);
        if reads && changes {
            self.note("said to be read-only and destructive; taken as destructive");
        }
        changes.then_some(Safety::Destructive).or(reads.then_some(Safety::ReadOnly))
    }
}

/// Returns an object with the members that have a value.
pub(super) fn object<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    let members = members.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Value::Object(members.collect())
}

/// What a function takes.
#[derive(Debug, Default)]
pub(super) struct Signature {
    pub(super) params: Vec<Value>,
    /// It fills a `Response`, and what it returns means nothing.
    pub(super) is_display: bool,
}

/// What the doc comment says of a parameter: by its name, else in its place and without a name.
fn said_of(said: &mut [Typed], name: &str, number: usize) -> Typed {
    match said.iter().position(|said| said.name.as_deref() == Some(name)) {
        Some(at) => std::mem::take(said.get_mut(at).unwrap_or(&mut Typed::default())),
        None => said.get(number).filter(|said| said.name.is_none()).cloned().unwrap_or_default(),
    }
}
