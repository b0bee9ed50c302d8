//! Limits of single tools.

use serde_json::value::RawValue;

use super::{FoundTool, Gateway};
use crate::access::{CallBounds, Caller, RunningCallGuard};
use crate::upstream::CallError;

/// A call within the limits of its tool. It counts as running until this value is dropped.
#[derive(Debug, Default)]
pub(super) struct AdmittedCall {
    pub(super) bounds: CallBounds,
    _running: Option<RunningCallGuard>,
}

impl Gateway {
    /// Checks the limits of a tool that the caller may use, and counts the call. The rate limit is checked
    /// last, so that calls that another limit refuses do not count against it.
    pub(super) fn admit(
        &self,
        tool: &FoundTool,
        caller: &Caller,
        method: &str,
        arguments: Option<&RawValue>,
    ) -> Result<AdmittedCall, CallError> {
        let limits = &tool.snapshot.limits;
        if limits.tools.is_empty() {
            return Ok(AdmittedCall::default());
        }
        let bounds = limits.tools.bounds(method);
        let bytes = arguments.map_or(0, |arguments| arguments.get().len());
        if let Some(limit) = bounds.argument_bytes.filter(|limit| bytes > *limit) {
            return Err(CallError::ArgumentsTooLarge { bytes, limit });
        }
        let (principal, servers) = (caller.principal(), self.rate_limiter.servers());
        let running = self.running_calls.begin(&limits.tools, principal, method, servers);
        let running = running.map_err(|refused| {
            CallError::Busy(refused.to_string().into()).logged(caller, method, String::new())
        })?;
        self.rate_limiter.call(limits, principal, method)?;
        Ok(AdmittedCall { bounds, _running: Some(running) })
    }
}
