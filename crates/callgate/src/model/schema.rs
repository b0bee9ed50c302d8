//! JSON Schema 2020-12 of types and of a method's arguments.
//!
//! Each type has a schema for clients and one for the check, see [`Purpose`]. [`of_type_expr`] converts types in PHP's
//! notation to schemas. [`normalise`] repairs schemas from other sources.

pub(crate) mod cache;
pub(crate) mod inline;
pub(crate) mod normalise;
#[cfg(feature = "macros")]
pub(crate) mod of_rust;
mod of_type_expr;
pub(crate) mod single_types;
pub(crate) mod text_check;
#[cfg(test)]
mod tests;
pub(crate) mod validator;
pub(crate) mod walk;

/// What a schema is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Shown to clients.
    Advertise,
    /// Checks arguments. Unlike in the advertised schema, PHP's `array` also accepts a list, and its default can be
    /// the empty list. Parameters can have the keywords [`WIRE_NAME`] and [`REST_PARAM`].
    Check,
}

/// Keyword in check schemas whose value is the original name of a renamed parameter.
pub(crate) const WIRE_NAME: &str = "x-callgate-name";

/// Keyword that marks the last parameter of a variadic method. Clients do not see it.
///
/// The value of the parameter is an array. If parameters are sent by position, each item is sent as a separate parameter.
///
/// Importers write this keyword in schemas for [`Method::input_schema`](crate::model::Method::input_schema).
pub const REST_PARAM: &str = "x-callgate-rest";

/// Keyword of check schemas that accept all arguments. Such a schema only defines how arguments are sent.
pub(crate) const UNCHECKED: &str = "x-callgate-unchecked";
