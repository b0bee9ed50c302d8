//! Methods and tools: types, schemas, names and arguments.
//!
//! ```
//! use callgate::model::{Method, Param, Safety};
//!
//! let method = Method::new("user.get".parse()?)
//!     .param(Param::new("id_user", "int".parse()?))
//!     .safety(Safety::ReadOnly);
//! assert_eq!(method.id().as_str(), "user.get");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod arguments;
pub(crate) mod finding;
pub(crate) mod method;
pub(crate) mod oauth_scope;
pub(crate) mod output;
pub(crate) mod schema;
pub(crate) mod tool;
pub(crate) mod tool_name;
pub(crate) mod type_expr;
pub(crate) mod types;

pub use arguments::{ArgumentsError, ParamStyle};
pub use finding::Finding;
pub use method::{DefinitionError, InvalidMethod, LOCAL, Method, MethodId, Param, Safety};
pub use oauth_scope::OAuthScope;
pub use schema::REST_PARAM;
pub use tool_name::{NameRequest, Prefix, ToolName, tool_names};
pub use type_expr::{ClassName, Field, Literal, TypeError, TypeExpr};
pub use types::{TypeDefinition, TypeField, Types};
