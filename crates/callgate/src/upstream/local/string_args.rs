//! String arguments of prompts and of resource templates.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use crate::upstream::local::Error;
use crate::wire::jsonrpc::{INVALID_PARAMS, RpcError};

/// String arguments by name.
#[derive(Debug)]
pub struct StringArgs(pub(crate) BTreeMap<String, String>);

impl StringArgs {
    /// Parses a required argument.
    pub fn required<T: FromStr<Err: Display>>(&self, name: &str) -> Result<T, Error> {
        self.read(name)?.ok_or_else(|| invalid(format!("the argument `{name}` is missing")))
    }

    /// Parses an optional argument.
    pub fn optional<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>, Error> {
        self.read(name)
    }

    /// Parses an optional argument with a default.
    pub fn or_default<T: FromStr<Err: Display>>(
        &self,
        name: &str,
        default: impl FnOnce() -> T,
    ) -> Result<T, Error> {
        Ok(self.read(name)?.unwrap_or_else(default))
    }

    fn read<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>, Error> {
        let Some(text) = self.0.get(name) else { return Ok(None) };
        let parse_error =
            |problem: T::Err| invalid(format!("the argument `{name}` cannot be parsed: {problem}"));
        text.parse().map(Some).map_err(parse_error)
    }
}

fn invalid(message: String) -> Error {
    Error::protocol(RpcError::new(INVALID_PARAMS, message))
}
