//! Rate limits of requests.

use super::Gateway;
use crate::access::{Caller, RateLimited, RateLimits};

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
        self.rate_limiter.request(&self.snapshot.load().limits, caller.principal())
    }

    /// Counts a request with an invalid credential against the limit of the client's address. It does not count against
    /// the limit of all callers, because clients without a valid credential could otherwise use up that limit.
    #[cfg(feature = "http")]
    pub(crate) fn count_unauthenticated(&self, client: &Caller) -> Result<(), RateLimited> {
        self.rate_limiter.of_caller(&self.snapshot.load().limits, client.principal())
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
}
