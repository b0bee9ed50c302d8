//! Callgate turns the JSON-RPC methods that an application already has into MCP tools, and lets
//! each caller use only the ones that they may.
//!
//! A [`Method`] is what the application has. A [`CatalogBuilder`] makes tools of many of them; the
//! [`Gateway`] holds the [`Catalog`] in force and lists, describes and calls on behalf of a
//! [`Caller`], whose [`Grants`] decide what is there for them. An [`Upstream`] runs the methods:
//! [`Local`] is Rust functions in this process.
//!
//! ```
//! use std::sync::Arc;
//! use callgate::{
//!     CallRequest, Caller, CatalogBuilder, Gateway, Grants, LOCAL, Local, Mask, Method, Prefix,
//!     Safety, Types, User, Upstream, local::Error,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut local = Local::default();
//! local.method(
//!     Method::new("cache.rebuild".parse()?)
//!         .description("Rebuilds the cache.")
//!         .safety(Safety::Destructive)
//!         .requires("system", Mask::Execute),
//!     async |_, _: serde_json::Value| Ok::<_, Error>(true),
//! );
//!
//! let mut catalog = CatalogBuilder::new(Prefix::default(), None);
//! for method in local.methods() {
//!     catalog.add(method.clone(), 0, &Types::default(), []);
//! }
//! let gateway = Gateway::new([(Arc::from(LOCAL), Arc::new(local) as Arc<dyn Upstream>)]);
//! gateway.set_catalog(Arc::new(catalog.finish()));
//!
//! let admin = User { id: 1, name: "admin".into(), role: None };
//! let admin = Caller::user(admin, Grants::from_iter([("system", Mask::Execute)]));
//! let request = CallRequest { id: "cache.rebuild", arguments: None, read_only: false };
//! assert_eq!(gateway.call(&admin, request).await?.get(), "true");
//! assert!(gateway.call(&Caller::anonymous(), request).await.is_err());
//! # Ok(())
//! # }
//! ```
//!
//! With the feature `http`, [`http::router`] serves all of it; with `stdio`, [`stdio::serve`] speaks MCP
//! over lines; with `bridge`, [`bridge::run`] takes such lines to a server over HTTP.

pub mod access;
mod arguments;
pub mod ask;
#[cfg(feature = "bridge")]
pub mod bridge;

#[cfg(feature = "macros")]
#[path = "private.rs"]
#[doc(hidden)]
pub mod __private;
mod catalog;
mod client;
mod content;
mod context;
mod cursor;
#[cfg(feature = "macros")]
mod definition;
mod embedded;
mod finding;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
#[cfg(feature = "http")]
pub mod http;
pub mod jsonrpc;
#[cfg(any(feature = "bridge", feature = "stdio"))]
mod lines;
mod listing;
pub mod local;
mod log_level;
pub mod mcp;
mod method;
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

pub use access::{Access, Caller, Decision, Grants, Mask, Need, Requirement, Section, User};
pub use arguments::{ArgumentsError, ParamStyle};
#[cfg(feature = "macros")]
pub use callgate_macros::{method, prompt, resource};
pub use catalog::{Catalog, CatalogBuilder, Entry, Quarantined};
pub use client::{Capability, Client};
pub use content::{Content, ResourceContents, Role, ToolContent};
pub use context::Context;
pub use cursor::{CursorError, OffsetCursor};
#[cfg(feature = "http")]
pub use embedded::ServeError;
pub use embedded::{BuildError, Builder, Callgate};
pub use finding::Finding;
pub use gateway::{
    AsCaller, CallError, CallRequest, DEFAULT_CALL_TIMEOUT, Gateway, NotFound, ToolRef,
};
pub use listing::{Listing, Page};
pub use local::{Error, Function, Local, Response, Undefined};
pub use log_level::{LogLevel, LogLevelError};
pub use method::{DefinitionError, LOCAL, Method, MethodId, Param, Safety};
pub use openrpc::OpenRpcError;
#[cfg(feature = "macros")]
pub use plugin::{Offer, Plugin};
#[cfg(feature = "macros")]
pub use prompt_function::PromptFunction;
#[cfg(feature = "macros")]
pub use reply::Reply;
#[cfg(feature = "macros")]
pub use resource_function::{IntoContents, ResourceFunction};
pub use revision::{Era, Revision, RevisionError};
pub use schema::Schema;
pub use settings::{KEYS as SETTING_KEYS, SettingError, Settings};
pub use tool_name::{Prefix, ToolName, Unnamed, tool_names};
pub use type_expr::{ClassName, Field, Literal, TypeError, TypeExpr};
pub use types::{TypeDefinition, TypeField, Types};
pub use upstream::{BoxFuture, Call, Returned, Upstream, UpstreamError};

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
