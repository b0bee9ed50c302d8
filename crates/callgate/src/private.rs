//! Items for the code that the attribute macros generate. Other code must not use these items: they can change without
//! notice.

pub use schemars;
pub use serde;

pub use crate::access::Mask;
pub use crate::mcp::{Prompt, PromptFunction, Resource, ResourceFunction};
pub use crate::model::method::Safety;
pub use crate::server::plugin::{Plugin, PluginItems};
pub use crate::upstream::local::context::Context;
pub use crate::upstream::local::definition::MethodDefinition;
pub use crate::upstream::local::string_args::StringArgs;
pub use crate::upstream::local::{Error, MethodFunction, Response};

/// Implemented for functions with `#[method]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a method",
    note = "put `#[method(…)]` before the function"
)]
pub trait MethodItem {
    fn make() -> MethodFunction;
}

/// Implemented for functions with `#[prompt]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a prompt",
    note = "put `#[prompt(…)]` before the function"
)]
pub trait PromptItem {
    fn make() -> PromptFunction;
}

/// Implemented for functions with `#[resource]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a resource",
    note = "put `#[resource(…)]` before the function"
)]
pub trait ResourceItem {
    fn make() -> ResourceFunction;
}

/// Converts the `Result` of a function that can fail.
pub fn finished<T, E: Into<Error>>(result: Result<T, E>) -> Result<T, Error> {
    result.map_err(Into::into)
}

/// Wraps the returned value of a function that cannot fail.
pub fn succeeded<T>(value: T) -> Result<T, Error> {
    Ok(value)
}
