//! Checks large values, and values with large schemas, on blocking threads. The threads are shared fairly among
//! callers.

use std::sync::Arc;
use std::thread::available_parallelism;

use thiserror::Error;
use tokio::task::JoinError;

use crate::access::{Caller, Shares};
use crate::upstream::MAX_INLINE;

/// Maximum size of a value that is checked without [`BlockingChecks::run`] if its request is part of a batch, in bytes.
/// It is lower than [`MAX_INLINE`], because up to 100 requests of a batch are checked one after the other.
const MAX_INLINE_IN_BATCH: usize = 512;

/// Maximum size of a schema that is compiled and used without [`BlockingChecks::run`], in bytes.
const MAX_INLINE_SCHEMA: usize = 64 * 1024;

/// Minimum number of threads. If there were fewer, one caller could use all of them, see [`Shares`].
const MIN_THREADS: usize = 4;

/// Threads for checks of large values.
#[derive(Debug)]
pub(crate) struct BlockingChecks(Arc<Shares>);

/// A value could not be checked.
#[derive(Debug, Error)]
pub(crate) enum CheckError {
    #[error("too many of your calls with large values are waiting")]
    Busy,
    #[error("the check failed")]
    Failed(#[from] JoinError),
}

impl Default for BlockingChecks {
    fn default() -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Self(Shares::new(cores.max(MIN_THREADS)))
    }
}

impl BlockingChecks {
    /// Returns `true` if a value of this size is checked on the current thread, without [`Self::run`].
    pub(crate) fn is_inline(caller: &Caller, bytes: usize, schema_bytes: usize) -> bool {
        let max = if caller.batch().is_some() { MAX_INLINE_IN_BATCH } else { MAX_INLINE };
        bytes <= max && schema_bytes <= MAX_INLINE_SCHEMA
    }

    /// Runs a check on a blocking thread. If no thread is free, waiting callers are served in turn.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        caller: &Caller,
        check: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, CheckError> {
        let share = self.0.acquire(caller.principal()).await.map_err(|_| CheckError::Busy)?;
        let handle = tokio::task::spawn_blocking(move || {
            let _share = share;
            check()
        });
        Ok(handle.await?)
    }
}
