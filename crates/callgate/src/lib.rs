#![doc = include_str!("docs/tour.md")]

mod backoff;
mod secret;
mod wire;
pub mod access;
pub mod model;
pub mod catalog;
#[cfg(any(feature = "bridge", feature = "forward"))]
mod http_client;
pub mod upstream;
pub mod gateway;
pub mod mcp;
mod transport;
mod server;
#[cfg(feature = "bridge")]
pub mod bridge;
pub mod lint;

#[cfg(feature = "macros")]
#[path = "private.rs"]
#[doc(hidden)]
pub mod __private;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;

/// Shared with the other crates of this workspace. Changes without notice.
#[doc(hidden)]
pub mod internal {
    pub use crate::backoff::random_between;
    pub use crate::gateway::openrpc::{Components, ContentDescriptor, SourceSchema};
    pub use crate::model::schema::inline::inline as inline_definitions;
    pub use crate::model::schema::walk::{for_each_reference_mut, for_each_schema_mut};
}

pub use access::{Caller, Grants, Mask, User};
/// Makes a function a method, and so a tool.
///
/// ```
/// use callgate::{Context, Error, method};
///
/// /// Looks up a user's name.
/// #[method(id = "user.name", title = "Name of a user", section("users", read), read_only)]
/// async fn user_name(
///     ctx: &Context,
///     /// The user's numeric id.
///     id_user: i64,
///     /// Whether to shout it.
///     #[default(false)]
///     loud: bool,
/// ) -> Result<String, Error> {
///     let name = ctx.caller.name().to_owned();
///     Ok(if loud { name.to_uppercase() } else { name })
/// }
/// ```
///
/// | | |
/// | --- | --- |
/// | `read_only` or `destructive` | whether a call changes anything; one of them must be there |
/// | `id = "user.get"` | the method's id; the function's name unless said |
/// | `title = "Get user"` | for people |
/// | `tool_name = "get_user"` | the tool's name over MCP; made from the id unless said |
/// | `section("users", read)` | what callers need: `read`, `write` or `execute`; may repeat |
/// | `idempotent`, `open_world` | hints for clients; `= false` says the contrary |
/// | `annotations(category = "system")` | passes through to clients |
///
/// What it takes by value are arguments; `&Context` and `&mut` [`Response`] are handed in. What it gives is
/// a [`IntoOutput`], or a `Result` of one. In an `impl`, see [`plugin`].
#[cfg(feature = "macros")]
pub use callgate_macros::method;
/// Makes a function a prompt: a text that a person starts a conversation with.
///
/// ```
/// use callgate::prompt;
///
/// /// Reviews code.
/// #[prompt(name = "review", title = "Review code", section("code", read))]
/// fn review(
///     /// The code.
///     code: String,
///     /// What to look for.
///     focus: Option<String>,
/// ) -> String {
///     format!("Look for {} in this code:\n\n{code}", focus.unwrap_or("mistakes".to_owned()))
/// }
/// ```
///
/// Arguments come as texts, so their types implement `FromStr`. It gives a text, a [`Content`] or a
/// [`GetPromptResult`](mcp::GetPromptResult), or a `Result` of one.
#[cfg(feature = "macros")]
pub use callgate_macros::prompt;
/// Makes a function a resource, or a family of them.
///
/// ```
/// use callgate::resource;
///
/// /// A product, as text.
/// #[resource(uri = "shop://products/{id}", name = "product", mime_type = "text/plain")]
/// async fn product(id: u32) -> Option<String> {
///     (id == 1).then(|| "Green tea".to_owned())
/// }
/// ```
///
/// Each `{part}` of the address is an argument, whose type implements `FromStr`. It gives
/// [`IntoContents`](mcp::IntoContents), or a `Result` of that.
#[cfg(feature = "macros")]
pub use callgate_macros::resource;
pub use secret::Secret;
#[cfg(feature = "http")]
pub use server::ServeError;
#[cfg(feature = "macros")]
pub use server::plugin;
pub use server::{BuildError, Builder, Callgate};
#[cfg(feature = "http")]
pub use transport::http;
#[cfg(feature = "stdio")]
pub use transport::stdio;
pub use upstream::Content;
#[cfg(feature = "forward")]
pub use upstream::forward;
#[cfg(feature = "macros")]
pub use upstream::local::IntoOutput;
pub use upstream::local::{self, Context, Error, Response, ask};
pub use wire::jsonrpc;

/// Functions with `#[method]`, for [`Builder::methods`]: `methods![get_user, users::delete_user]`.
#[cfg(feature = "macros")]
#[macro_export]
macro_rules! methods {
    ($($function:path),* $(,)?) => {
        [$(<$function as $crate::__private::MethodItem>::make()),*]
    };
}

/// Functions with `#[prompt]`, for [`Builder::prompts`]: `prompts![review]`.
#[cfg(feature = "macros")]
#[macro_export]
macro_rules! prompts {
    ($($function:path),* $(,)?) => {
        [$(<$function as $crate::__private::PromptItem>::make()),*]
    };
}

/// Functions with `#[resource]`, for [`Builder::resources`]: `resources![stock]`.
#[cfg(feature = "macros")]
#[macro_export]
macro_rules! resources {
    ($($function:path),* $(,)?) => {
        [$(<$function as $crate::__private::ResourceItem>::make()),*]
    };
}
