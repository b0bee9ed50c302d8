//! Rate limits of requests.

use super::Gateway;
use crate::access::{Caller, RateLimited, RateLimits};

impl Gateway {
    /// Sets the rate limits, which [settings](super::Settings::limits) override.
    #[must_use]
    pub fn rate_limits(mut self, limits: RateLimits) -> Self {
        self.rate_limits = limits;
        self.set_settings(self.settings());
        self
    }

    /// Counts a request of the caller. Every message that a transport receives is counted here once. Of a
    /// batch, each message is counted. Limits of single tools are counted when a tool is called, after its
    /// access is decided.
    pub(crate) fn count_request(&self, caller: &Caller) -> Result<(), RateLimited> {
        self.rate_limiter.request(&self.snapshot.load().limits, caller.principal())
    }

    /// Counts a request with an invalid credential for the address of its client. It does not count against the
    /// limit of all callers, because clients without a valid credential could otherwise use it up.
    #[cfg(feature = "http")]
    pub(crate) fn count_unauthenticated(&self, client: &Caller) -> Result<(), RateLimited> {
        self.rate_limiter.of_caller(&self.snapshot.load().limits, client.principal())
    }

    /// Returns the number of requests that exceeded a rate limit.
    pub fn rate_limited(&self) -> u64 {
        self.rate_limiter.refused()
    }

    /// Sets the number of servers that share the rate limits. Each server uses its share of them.
    pub fn share_rate_limits(&self, servers: u32) {
        self.rate_limiter.set_servers(servers);
    }

    /// Returns the number of servers that share the rate limits.
    pub fn rate_limit_servers(&self) -> u32 {
        self.rate_limiter.servers()
    }
}
