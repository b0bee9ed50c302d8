//! What the attributes write refers to this. Not for use by hand: it changes without notice.

pub use schemars;
pub use serde;

pub use crate::access::Mask;
pub use crate::mcp::features::prompt_function::{PromptDefinition, PromptFunction};
pub use crate::mcp::features::resource_function::{ResourceDefinition, ResourceFunction};
pub use crate::model::method::Safety;
pub use crate::server::plugin::{Plugin, PluginItems};
pub use crate::upstream::local::context::Context;
pub use crate::upstream::local::definition::MethodDefinition;
pub use crate::upstream::local::string_args::StringArgs;
pub use crate::upstream::local::{Error, MethodFunction, Response};

/// What stands beside a function with `#[method]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a method",
    note = "put `#[method(…)]` before the function"
)]
pub trait MethodItem {
    fn make() -> MethodFunction;
}

/// What stands beside a function with `#[prompt]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a prompt",
    note = "put `#[prompt(…)]` before the function"
)]
pub trait PromptItem {
    fn make() -> PromptFunction;
}

/// What stands beside a function with `#[resource]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a resource",
    note = "put `#[resource(…)]` before the function"
)]
pub trait ResourceItem {
    fn make() -> ResourceFunction;
}

/// The outcome of a function that can fail.
pub fn finished<T, E: Into<Error>>(result: Result<T, E>) -> Result<T, Error> {
    result.map_err(Into::into)
}

/// The outcome of one that cannot.
pub fn succeeded<T>(value: T) -> Result<T, Error> {
    Ok(value)
}
