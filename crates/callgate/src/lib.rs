#![doc = include_str!("docs/tour.md")]

pub mod access;
mod arguments;
pub mod ask;
#[cfg(feature = "bridge")]
pub mod bridge;

#[cfg(feature = "macros")]
#[path = "private.rs"]
#[doc(hidden)]
pub mod __private;
#[doc(hidden)]
pub mod backoff;
mod budget;
mod catalog;
mod client;
mod content;
mod context;
mod credentials;
mod cursor;
#[cfg(feature = "macros")]
mod definition;
mod embedded;
mod finding;
#[cfg(feature = "forward")]
pub mod forward;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
#[cfg(feature = "http")]
pub mod http;
#[cfg(any(feature = "bridge", feature = "forward"))]
mod http_client;
pub mod jsonrpc;
#[cfg(any(feature = "bridge", feature = "stdio"))]
mod lines;
pub mod lint;
mod listing;
pub mod local;
mod log_level;
pub mod mcp;
mod method;
mod oauth_scope;
mod openrpc;
mod percent;
#[cfg(feature = "macros")]
pub mod plugin;
#[cfg(feature = "macros")]
mod prompt_function;
#[cfg(feature = "macros")]
mod reply;
#[cfg(feature = "macros")]
mod resource_function;
mod revision;
mod schema;
mod secret;
mod settings;
#[cfg(feature = "stdio")]
pub mod stdio;
mod strict_json;
#[cfg(feature = "macros")]
mod texts;
mod tool;
mod tool_name;
mod type_expr;
mod types;
mod upstream;
mod visibility;

pub use access::{Access, Caller, Decision, Grants, Mask, Need, Requirement, Section, User};
pub use arguments::{ArgumentsError, ParamStyle};
pub use budget::{DEFAULT_IN_FLIGHT_BYTES, Hold, OverBudget};
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
/// a [`Reply`], or a `Result` of one. In an `impl`, see [`plugin`].
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
/// [`Filled`](mcp::Filled), or a `Result` of one.
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
/// [`IntoContents`], or a `Result` of that.
#[cfg(feature = "macros")]
pub use callgate_macros::resource;
pub use catalog::{Catalog, CatalogBuilder, Entry, Quarantined};
pub use client::{Capability, Client};
pub use content::{Content, ResourceContents, Role, ToolContent};
pub use context::Context;
pub use credentials::{CredentialError, Credentials, Replaced};
pub use cursor::{CursorError, OffsetCursor};
#[cfg(feature = "http")]
pub use embedded::ServeError;
pub use embedded::{BuildError, Builder, Callgate};
pub use finding::Finding;
pub use gateway::{
    AsCaller, CallError, CallFailure, CallRequest, DEFAULT_CALL_TIMEOUT, Gateway, NotFound,
    Outcome, ToolRef, UpstreamState,
};
pub use listing::{Listing, Page};
pub use local::{Error, Function, Local, Response, Undefined};
pub use log_level::{LogLevel, LogLevelError};
pub use method::{DefinitionError, LOCAL, Method, MethodId, Param, Safety};
pub use oauth_scope::OAuthScope;
pub use openrpc::OpenRpcError;
#[doc(hidden)]
pub use openrpc::{Components, ContentDescriptor, SourceSchema};
#[cfg(feature = "macros")]
pub use plugin::{Offer, Plugin};
#[cfg(feature = "macros")]
pub use prompt_function::PromptFunction;
#[cfg(feature = "macros")]
pub use reply::Reply;
#[cfg(feature = "macros")]
pub use resource_function::{IntoContents, ResourceFunction};
pub use revision::{Era, Revision, RevisionError};
pub use schema::REST_PARAM;
pub use schema::inline::inline as inline_definitions;
#[doc(hidden)]
pub use schema::walk::{for_each_reference_mut, for_each_schema_mut};
pub use secret::Secret;
pub use settings::{KEYS as SETTING_KEYS, SettingError, Settings};
pub use tool_name::{Prefix, ToolName, Unnamed, tool_names};
pub use type_expr::{ClassName, Field, Literal, TypeError, TypeExpr};
pub use types::{TypeDefinition, TypeField, Types};
pub use upstream::{BoxFuture, Call, Counters, Returned, Upstream};
pub use visibility::{CallerMethods, Identity, ListError, ListsMethods};

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
