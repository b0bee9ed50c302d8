//! A view of the gateway for one caller, without a transport. Used for tests, and by code that calls methods directly.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::to_raw_value;

use super::{CallRequest, Gateway};
use crate::access::Caller;
use crate::upstream::{CallError, NotFound};

/// A [`Gateway`] that acts for one caller.
///
/// Returned by [`Callgate::as_caller`](crate::Callgate::as_caller) and [`Gateway::as_caller`].
/// [`Callgate`](crate::Callgate) has an example.
#[derive(Debug)]
pub struct AsCaller<'a> {
    gateway: &'a Gateway,
    caller: Caller,
}

impl Gateway {
    /// Returns a view of the gateway for `caller`.
    ///
    /// If services restrict which methods callers see, the caller must be [prepared](Gateway::prepare) before tools are
    /// listed.
    pub fn as_caller(&self, caller: Caller) -> AsCaller<'_> {
        AsCaller { gateway: self, caller }
    }
}

impl AsCaller<'_> {
    /// Calls a method by its id, with the same checks as a call over the network.
    pub async fn call(&self, id: &str, arguments: impl Serialize) -> Result<Value, CallError> {
        let invalid =
            |error: serde_json::Error| CallError::arguments(format!("arguments: {error}"));
        let arguments = to_raw_value(&arguments).map_err(invalid)?;
        let arguments = (arguments.get() != "null").then_some(&*arguments);
        let request = CallRequest { id, arguments, read_only: false };
        let result = self.gateway.call(&self.caller, request).await?;
        Ok(serde_json::from_str(result.value.get()).unwrap_or_default())
    }

    /// Returns the ids of the methods that the caller may call, sorted.
    pub fn methods(&self) -> Vec<String> {
        let snapshot = self.gateway.snapshot.load_full();
        let listing = Gateway::listing(&snapshot, &self.caller);
        let entries =
            listing.ordinals.iter().filter_map(|ordinal| snapshot.catalog.entry(*ordinal));
        entries.map(|entry| entry.id().to_string()).collect()
    }

    /// Returns the tool of a method as JSON.
    pub fn describe(&self, id: &str) -> Result<Value, NotFound> {
        let tool = self.gateway.describe(&self.caller, id)?;
        Ok(serde_json::from_slice(&tool).unwrap_or_default())
    }
}
