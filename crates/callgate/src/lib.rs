#![doc = include_str!("docs/tour.md")]

mod backoff;
mod lru_cache;
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

/// Compiles the code of a guide.
#[cfg(all(doctest, feature = "http", feature = "macros", feature = "stdio"))]
#[doc = include_str!("../../../docs/guide/rmcp.md")]
mod guide {}

/// Items for the other crates of this workspace. They can change without notice.
#[doc(hidden)]
pub mod internal {
    pub use crate::access::tool_limits::matches_pattern;
    pub use crate::backoff::random_between;
    pub use crate::gateway::openrpc::{Components, ContentDescriptor, SourceSchema};
    pub use crate::lint::examples::refused_examples;
    pub use crate::model::schema::inline::inline as inline_definitions;
    pub use crate::model::schema::walk::{for_each_reference_mut, for_each_schema_mut, json_bytes};
    pub use crate::model::type_expr::parse::parse as parse_type;
    pub use crate::wire::invisible::{
        escape_invisible, escape_invisible_json, invisible_characters,
    };
}

pub use access::{Caller, Grants, Mask, User};
/// Makes a function a method, which is served as a tool.
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
/// | `read_only` or `destructive` | whether calls have side effects; one of the two is required |
/// | `id = "user.get"` | id of the method; defaults to the function's name |
/// | `title = "Get user"` | title for users |
/// | `tool_name = "get_user"` | name of the tool; defaults to a name derived from the id |
/// | `section("users", read)` | required mask: `read`, `write` or `execute`; can be repeated |
/// | `idempotent`, `open_world` | hints for clients; `= false` negates a hint |
/// | `annotations(category = "system")` | annotations for clients |
///
/// Parameters passed by value are arguments. Callgate provides parameters of the types `&Context` and
/// `&mut` [`Response`]. The function returns an [`IntoOutput`], or a `Result` with an [`IntoOutput`]. For
/// functions in an `impl` block, see [`plugin`].
#[cfg(feature = "macros")]
pub use callgate_macros::method;
/// Makes a function a prompt: a message with which a user starts a conversation.
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
/// Arguments are strings, so their types implement `FromStr`. The function returns a text, a [`Content`] or a
/// [`GetPromptResult`](mcp::GetPromptResult), or a `Result` with one of these.
#[cfg(feature = "macros")]
pub use callgate_macros::prompt;
/// Makes a function a resource, or a resource template if the URI has a `{part}`.
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
/// Each `{part}` of the URI is an argument, whose type implements `FromStr`. The function returns an
/// [`IntoContents`](mcp::IntoContents), or a `Result` with an [`IntoContents`](mcp::IntoContents).
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

/// Lists functions with `#[method]` for [`Builder::methods`]: `methods![get_user, users::delete_user]`.
///
/// ```
/// use callgate::{Callgate, Caller, method, methods};
///
/// mod users {
///     /// Deletes a user.
///     #[callgate::method(id = "user.delete", destructive)]
///     pub fn delete_user(id_user: i64) -> bool {
///         id_user > 0
///     }
/// }
///
/// /// Returns the name of a user.
/// #[method(id = "user.get", read_only)]
/// fn get_user(id_user: i64) -> Option<String> {
///     (id_user == 7).then(|| "ada".to_owned())
/// }
///
/// let server = Callgate::builder().methods(methods![get_user, users::delete_user]).build()?;
/// assert_eq!(server.as_caller(Caller::anonymous()).methods(), ["user.delete", "user.get"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "macros")]
#[macro_export]
macro_rules! methods {
    ($($function:path),* $(,)?) => {
        [$(<$function as $crate::__private::MethodItem>::make()),*]
    };
}

/// Lists functions with `#[prompt]` for [`Builder::prompts`]: `prompts![review]`.
///
/// ```
/// use callgate::{Callgate, Caller, prompt, prompts};
/// use serde_json::json;
///
/// /// Reviews code.
/// #[prompt(name = "review")]
/// fn review(code: String) -> String {
///     format!("Look for mistakes in this code: {code}")
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Callgate::builder().prompts(prompts![review]).build()?;
/// let client = server.test_client(Caller::anonymous());
/// let prompt = client.prompt("review", json!({"code": "1 / 0"})).await?;
/// let text = &prompt["messages"][0]["content"]["text"];
/// assert_eq!(text, "Look for mistakes in this code: 1 / 0");
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "macros")]
#[macro_export]
macro_rules! prompts {
    ($($function:path),* $(,)?) => {
        [$(<$function as $crate::__private::PromptItem>::make()),*]
    };
}

/// Lists functions with `#[resource]` for [`Builder::resources`]: `resources![stock]`.
///
/// ```
/// use callgate::{Callgate, Caller, resource, resources};
///
/// /// The current stock.
/// #[resource(uri = "shop://stock", mime_type = "text/plain")]
/// fn stock() -> String {
///     "7 boxes of green tea".to_owned()
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Callgate::builder().resources(resources![stock]).build()?;
/// let client = server.test_client(Caller::anonymous());
/// let resource = client.read("shop://stock").await?;
/// assert_eq!(resource["contents"][0]["text"], "7 boxes of green tea");
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "macros")]
#[macro_export]
macro_rules! resources {
    ($($function:path),* $(,)?) => {
        [$(<$function as $crate::__private::ResourceItem>::make()),*]
    };
}
