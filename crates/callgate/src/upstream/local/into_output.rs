//! Return types of functions with `#[method]`.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::to_raw_value;

use crate::model::method::DefinitionError;
use crate::model::schema::of_rust;
use crate::upstream::CallOutput;
use crate::upstream::content::{Content, ToolContent};
use crate::upstream::local::{Error, Response};

/// Return type of a method: a JSON value or content blocks.
///
/// A type that implements [`Serialize`] and [`JsonSchema`] has an output schema, except [`serde_json::Value`] and
/// `()`. [`Content`] and [`ToolContent`] are sent as content blocks, and have no output schema.
///
/// ```
/// use callgate::method;
/// use schemars::JsonSchema;
/// use serde::Serialize;
///
/// #[derive(Serialize, JsonSchema)]
/// struct Point {
///     x: f64,
///     y: f64,
/// }
///
/// /// Returns the origin.
/// #[method(read_only)]
/// fn origin() -> Point {
///     Point { x: 0.0, y: 0.0 }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a method cannot return `{Self}`",
    label = "this type is neither JSON with a schema nor content",
    note = "derive `serde::Serialize` and `schemars::JsonSchema` for the type, or return `Content` or `ToolContent`",
    note = "a fallible function returns a type named `Result`, with `callgate::local::Error` or any other error"
)]
pub trait IntoOutput: Send {
    /// Returns the output schema, if there is one.
    #[doc(hidden)]
    fn output_schema() -> Result<Option<Value>, DefinitionError>;

    /// Converts the value to a result.
    #[doc(hidden)]
    fn into_output(self) -> Result<CallOutput, Error>;
}

impl<T: Serialize + JsonSchema + Send> IntoOutput for T {
    fn output_schema() -> Result<Option<Value>, DefinitionError> {
        of_rust::output::<T>()
    }

    fn into_output(self) -> Result<CallOutput, Error> {
        Ok(to_raw_value(&self)?.into())
    }
}

impl IntoOutput for ToolContent {
    fn output_schema() -> Result<Option<Value>, DefinitionError> {
        Ok(None)
    }

    fn into_output(self) -> Result<CallOutput, Error> {
        Ok(CallOutput::Content(self))
    }
}

impl IntoOutput for Content {
    fn output_schema() -> Result<Option<Value>, DefinitionError> {
        Ok(None)
    }

    fn into_output(self) -> Result<CallOutput, Error> {
        Ok(CallOutput::Content(self.into()))
    }
}

impl IntoOutput for Response {
    fn output_schema() -> Result<Option<Value>, DefinitionError> {
        Ok(None)
    }

    fn into_output(self) -> Result<CallOutput, Error> {
        Ok(to_raw_value(self.contents())?.into())
    }
}
