//! Arguments that are texts: those of prompts, and the parts of a resource's address.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use crate::upstream::local::Error;
use crate::wire::jsonrpc::{INVALID_PARAMS, RpcError};

/// String arguments by name.
#[derive(Debug)]
pub struct StringArgs(pub(crate) BTreeMap<String, String>);

impl StringArgs {
    /// What must be there.
    pub fn required<T: FromStr<Err: Display>>(&self, name: &str) -> Result<T, Error> {
        self.read(name)?.ok_or_else(|| invalid(format!("the argument `{name}` is missing")))
    }

    /// What may be there.
    pub fn optional<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>, Error> {
        self.read(name)
    }

    /// What may be there, and what stands for it otherwise.
    pub fn or_default<T: FromStr<Err: Display>>(
        &self,
        name: &str,
        default: impl FnOnce() -> T,
    ) -> Result<T, Error> {
        Ok(self.read(name)?.unwrap_or_else(default))
    }

    fn read<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>, Error> {
        let Some(text) = self.0.get(name) else { return Ok(None) };
        let wrong = |problem: T::Err| invalid(format!("the argument `{name}`: {problem}"));
        text.parse().map(Some).map_err(wrong)
    }
}

fn invalid(message: String) -> Error {
    Error::protocol(RpcError::new(INVALID_PARAMS, message))
}
