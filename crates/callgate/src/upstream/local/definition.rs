//! Builder for methods with the attribute `#[method]`.

#![expect(
    missing_docs,
    reason = "used only by generated code; `Method` documents the same functions"
)]

use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::access::{Mask, Section};
use crate::model::method::{DefinitionError, InvalidMethod, Method, Safety};
use crate::model::schema::of_rust;
use crate::upstream::local::context::Context;
use crate::upstream::local::into_output::IntoOutput;
use crate::upstream::local::{Error, Function, MethodFunction, read};

/// A method under construction.
#[derive(Debug)]
pub struct MethodDefinition {
    id: &'static str,
    method: Result<Method, DefinitionError>,
    annotations: Map<String, Value>,
    allows_unknown_arguments: bool,
}

impl MethodDefinition {
    pub fn new(id: &'static str) -> Self {
        let method = id.parse().map(Method::new);
        Self { id, method, annotations: Map::new(), allows_unknown_arguments: false }
    }

    fn with(mut self, change: impl FnOnce(Method) -> Method) -> Self {
        self.method = self.method.map(change);
        self
    }

    #[must_use]
    pub fn title(self, title: &str) -> Self {
        self.with(|method| method.title(title))
    }

    #[must_use]
    pub fn tool_name(self, name: &str) -> Self {
        self.with(|method| method.tool_name(name))
    }

    #[must_use]
    pub fn description(self, description: &str) -> Self {
        self.with(|method| method.description(description))
    }

    #[must_use]
    pub fn requires(self, section: &str, mask: Mask) -> Self {
        self.with(|method| method.requires(Section::from(section), mask))
    }

    #[must_use]
    pub fn safety(self, safety: Safety) -> Self {
        self.with(|method| method.safety(safety))
    }

    #[must_use]
    pub fn annotation(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.annotations.insert(key.to_owned(), value.into());
        self
    }

    #[must_use]
    pub fn allow_unknown_arguments(self) -> Self {
        Self { allows_unknown_arguments: true, ..self }
    }

    /// Sets the function, whose arguments are the fields of `A`.
    pub fn run<A, R, F, Fut>(self, function: F) -> MethodFunction
    where
        A: DeserializeOwned + JsonSchema + Send,
        R: IntoOutput,
        F: Fn(Context, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Error>> + Send + 'static,
    {
        let function = Function::new_async(move |context, params| {
            let call = read(params).map(|arguments| function(context, arguments));
            async move { Ok(call?.await?.into_output()?) }
        });
        MethodFunction { method: self.finish::<A, R>(), function }
    }

    /// Sets a function that is not `async` and has no context.
    pub fn run_now<A, R, F>(self, function: F) -> MethodFunction
    where
        A: DeserializeOwned + JsonSchema + Send,
        R: IntoOutput,
        F: Fn(A) -> Result<R, Error> + Send + Sync + 'static,
    {
        let function = move |params: &RawValue| Ok(function(read(params)?)?.into_output()?);
        MethodFunction {
            method: self.finish::<A, R>(),
            function: Function::Immediate(Arc::new(function)),
        }
    }

    /// Adds the schemas of the arguments and of the result.
    fn finish<A: JsonSchema, R: IntoOutput>(self) -> Result<Method, InvalidMethod> {
        let Self { id, method, annotations, allows_unknown_arguments } = self;
        let method = method.and_then(|method| {
            let (mut check, mut advertised) = of_rust::input::<A>();
            if allows_unknown_arguments {
                for root in
                    [&mut check, &mut advertised].into_iter().filter_map(Value::as_object_mut)
                {
                    root.insert("additionalProperties".to_owned(), Value::Bool(true));
                }
            }
            let method = method.annotations(annotations).input_schemas(check, advertised)?;
            match R::output_schema()? {
                Some(schema) => method.output_schema(schema),
                None => Ok(method),
            }
        });
        method.map_err(|reason| InvalidMethod { id: id.to_owned(), reason })
    }
}
