//! List, describe, call: the one place where access is decided.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use serde_json::value::RawValue;
use thiserror::Error;

use crate::access::Caller;
use crate::arguments::{ArgumentsError, CallPlans, ParamStyle};
use crate::catalog::{Catalog, Entry};
use crate::jsonrpc::RpcError;
use crate::listing::Page;
use crate::method::Safety;
use crate::settings::Settings;
use crate::upstream::{Call, Upstream, UpstreamError};

/// How long a call may take unless told otherwise.
pub const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Ids are at most this long; what a client asks for may be longer.
const MAX_LOGGED_ID: usize = 255;

/// The catalog in force, what runs its methods, and the settings: shared by every face.
#[derive(Debug)]
pub struct Gateway {
    catalog: ArcSwap<Catalog>,
    settings: ArcSwap<Settings>,
    upstreams: HashMap<Arc<str>, Arc<dyn Upstream>>,
    plans: CallPlans,
    call_timeout: Duration,
    call_ids: CallIds,
}

/// A tool that is not there for this caller, whether it exists or not.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("Tool '{0}' not found or access denied")]
pub struct NotFound(pub String);

/// Why a call has no result.
#[derive(Debug, Error)]
pub enum CallError {
    /// Unknown, or not for this caller.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// A form of call that is for read-only methods only.
    #[error("Tool '{0}' is not read-only")]
    NotReadOnly(String),
    /// Refused before anything ran.
    #[error(transparent)]
    Arguments(#[from] ArgumentsError),
    /// The method says so.
    #[error(transparent)]
    Rpc(RpcError),
    /// Something broke; the log has it under this id.
    #[error("Tool execution failed")]
    Failed {
        /// The call's id.
        error_id: String,
    },
}

/// What a caller asks to run.
#[derive(Debug, Clone, Copy)]
pub struct CallRequest<'a> {
    /// The method's id.
    pub id: &'a str,
    /// An object, or a list in the order of the signature; absent is an empty object.
    pub arguments: Option<&'a RawValue>,
    /// Whether methods that change something are out.
    pub read_only: bool,
}

impl Gateway {
    /// A gateway with an empty catalog over named upstreams.
    pub fn new(upstreams: impl IntoIterator<Item = (Arc<str>, Arc<dyn Upstream>)>) -> Self {
        Self {
            catalog: ArcSwap::default(),
            settings: ArcSwap::default(),
            upstreams: upstreams.into_iter().collect(),
            plans: CallPlans::default(),
            call_timeout: DEFAULT_CALL_TIMEOUT,
            call_ids: CallIds::default(),
        }
    }

    /// Sets how long a call may take.
    #[must_use]
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = timeout;
        self
    }

    /// The catalog in force.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// Puts another catalog in force; requests under way finish with theirs.
    pub fn set_catalog(&self, catalog: Arc<Catalog>) {
        self.catalog.store(catalog);
    }

    /// The settings in force.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// Puts other settings in force.
    pub fn set_settings(&self, settings: Arc<Settings>) {
        self.settings.store(settings);
    }

    /// Up to `size` of the caller's tools, from `offset` on.
    pub fn list(&self, caller: &Caller, offset: usize, size: usize) -> Page {
        let catalog = self.catalog.load();
        catalog.listing(&caller.grants).page(&catalog, offset, size)
    }

    /// One tool as JSON.
    pub fn describe(&self, caller: &Caller, id: &str) -> Result<Bytes, NotFound> {
        let catalog = self.catalog.load();
        let entry = decide(&catalog, caller, id)?;
        Ok(catalog.tool(entry))
    }

    /// Runs a method: decide, check the arguments, call the upstream within the time limit.
    pub async fn call(
        &self,
        caller: &Caller,
        request: CallRequest<'_>,
    ) -> Result<Box<RawValue>, CallError> {
        let catalog = self.catalog.load_full();
        let entry = decide(&catalog, caller, request.id)?;
        if request.read_only && entry.safety() != Safety::ReadOnly {
            return Err(CallError::NotReadOnly(request.id.to_owned()));
        }
        let call_id = self.call_ids.next();
        let result = self.run(&catalog, entry, caller, request, &call_id).await;
        result.map_err(|error| match error {
            RunError::Arguments(error) => CallError::Arguments(error),
            RunError::Upstream(UpstreamError::Rpc(error)) => CallError::Rpc(error),
            RunError::Upstream(UpstreamError::Arguments(problem)) => {
                CallError::Arguments(ArgumentsError::from_upstream(problem))
            }
            RunError::Upstream(UpstreamError::Failed(source)) => {
                log_failure(caller, request.id, &call_id, source.as_ref());
                CallError::Failed { error_id: call_id }
            }
        })
    }

    async fn run(
        &self,
        catalog: &Catalog,
        entry: &Entry,
        caller: &Caller,
        request: CallRequest<'_>,
        call_id: &str,
    ) -> Result<Box<RawValue>, RunError> {
        let upstream = self.upstreams.get(entry.upstream());
        let style = upstream.map_or(ParamStyle::Named, |upstream| upstream.param_style());
        let plan = self.plans.get(&catalog.check_schema(entry)).map_err(UpstreamError::failed)?;
        let params = plan.params(request.arguments, style)?;
        let upstream = upstream.ok_or_else(|| {
            UpstreamError::failed(format!("upstream `{}` is not configured", entry.upstream()))
        })?;
        let call = Call { id: call_id, method: entry.id().as_str(), params: &params, caller };
        match tokio::time::timeout(self.call_timeout, upstream.call(call)).await {
            Ok(result) => Ok(result?),
            Err(_) => {
                Err(UpstreamError::failed(format!("no answer within {:?}", self.call_timeout))
                    .into())
            }
        }
    }
}

/// Whether the caller may use the method. Denied looks like unknown to the caller, also in how long
/// it takes, so both are logged; the log says which it was.
fn decide<'a>(catalog: &'a Catalog, caller: &Caller, id: &str) -> Result<&'a Entry, NotFound> {
    let entry = catalog.by_id(id);
    if let Some(entry) = entry
        && catalog.requirement(entry).allows(&caller.grants)
    {
        return Ok(entry);
    }
    let decision = match entry {
        Some(entry) => catalog.requirement(entry).decide(&caller.grants).to_string(),
        None => "denied: there is no such method".to_owned(),
    };
    let method: String = id.chars().take(MAX_LOGGED_ID).collect();
    tracing::info!(caller = caller.name(), method, decision, "access denied");
    Err(NotFound(id.to_owned()))
}

fn log_failure(
    caller: &Caller,
    method: &str,
    error_id: &str,
    source: &(dyn std::error::Error + 'static),
) {
    let mut chain = source.to_string();
    let mut next = source.source();
    while let Some(cause) = next {
        let _ = write!(chain, ": {cause}");
        next = cause.source();
    }
    tracing::error!(caller = caller.name(), method, error_id, error = chain, "call failed");
}

#[derive(Debug, Error)]
enum RunError {
    #[error(transparent)]
    Arguments(#[from] ArgumentsError),
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
}

/// `mcp_` and what no other call, of this process or another, has.
#[derive(Debug)]
struct CallIds {
    process: u64,
    count: AtomicU64,
}

impl Default for CallIds {
    fn default() -> Self {
        // Without randomness ids are unique to this process only, which the logs survive.
        Self { process: getrandom::u64().unwrap_or_default(), count: AtomicU64::new(0) }
    }
}

impl CallIds {
    fn next(&self) -> String {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        format!("mcp_{:016x}{count:08x}", self.process)
    }
}
