//! Limits of requests and of single tools.

use serde_json::value::RawValue;

use super::{FoundTool, Gateway};
use crate::access::{CallBounds, Caller, RateLimited, RateLimits, RunningCallGuard};
use crate::upstream::CallError;

/// A call within the limits of its tool. It counts as running until this value is dropped.
#[derive(Debug, Default)]
pub(super) struct AdmittedCall {
    pub(super) bounds: CallBounds,
    _running: Option<RunningCallGuard>,
}

impl Gateway {
    /// Sets the rate limits of the configuration. [Settings](super::Settings::limits) override them.
    #[must_use]
    pub fn rate_limits(mut self, limits: RateLimits) -> Self {
        self.rate_limits = limits;
        self.set_settings(self.settings());
        self
    }

    /// Counts a request against the limits of the caller and of all callers. Every message that a transport receives is
    /// counted exactly once, also in a batch. Limits of single tools are counted later, when a tool is called and
    /// access is allowed.
    pub(crate) fn count_request(&self, caller: &Caller) -> Result<(), RateLimited> {
        self.rate_limiter.count_request(&self.snapshot.load().limits, caller.principal())
    }

    /// Counts a request with an invalid credential against the limit of the client's address. It does not count against
    /// the limit of all callers, because clients without a valid credential could otherwise use up that limit.
    #[cfg(feature = "http")]
    pub(crate) fn count_unauthenticated(&self, client: &Caller) -> Result<(), RateLimited> {
        self.rate_limiter.count_caller_request(&self.snapshot.load().limits, client.principal())
    }

    /// Returns the number of requests that exceeded a rate limit.
    pub fn rate_limited(&self) -> u64 {
        self.rate_limiter.refused()
    }

    /// Sets the number of servers that share the rate limits. Each server uses an equal part of them.
    pub fn share_rate_limits(&self, servers: u32) {
        self.rate_limiter.set_servers(servers);
    }

    /// Returns the number of servers that share the rate limits.
    pub fn rate_limit_servers(&self) -> u32 {
        self.rate_limiter.servers()
    }

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
        let running = running.map_err(|error| {
            CallError::Busy(error.to_string().into()).logged(caller, method, String::new())
        })?;
        self.rate_limiter.count_call(limits, principal, method)?;
        Ok(AdmittedCall { bounds, _running: Some(running) })
    }
}
