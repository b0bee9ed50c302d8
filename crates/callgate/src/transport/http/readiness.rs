//! Readiness: whether this server has a catalog to serve, and whether the catalog is up to date.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::MetricsWriter;

/// The state that `/readyz` reports, shared with the tasks that load the catalog.
///
/// Returned by [`Callgate::readiness`](crate::Callgate::readiness). [`serve`](super::serve) has an example.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<Mutex<ReadinessState>>);

#[derive(Debug, Clone, Default)]
pub(super) struct ReadinessState {
    pub(super) status: ReadinessStatus,
    pub(super) check: Option<Arc<dyn ReadinessCheck>>,
}

#[derive(Debug, Clone, Default)]
pub(super) enum ReadinessStatus {
    #[default]
    Starting,
    Ready,
    /// An earlier catalog is served. The text says why the current catalog could not be loaded.
    Stale(String),
}

/// Reports whether the source of the catalog and of credentials, such as the registry, works.
///
/// Argument of [`Readiness::set_check`].
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use callgate::Callgate;
/// use callgate::http::{Degraded, MetricsWriter, ReadinessCheck};
///
/// /// The database of an application.
/// #[derive(Debug, Default)]
/// struct Database {
///     is_read_only: AtomicBool,
/// }
///
/// impl ReadinessCheck for Database {
///     fn degraded(&self) -> Option<Degraded> {
///         self.is_read_only.load(Ordering::Relaxed).then(|| Degraded {
///             reason: "the database is read-only".to_owned(),
///             details: Vec::new(),
///             credentials_accepted_for: None,
///         })
///     }
///
///     fn write_metrics(&self, metrics: &mut MetricsWriter) {
///         let is_read_only = u8::from(self.is_read_only.load(Ordering::Relaxed));
///         metrics.gauge("shop_database_read_only", "1 if no orders can be placed.", is_read_only);
///     }
/// }
///
/// let database = Arc::new(Database::default());
/// let server = Callgate::builder().metrics().build()?;
/// server.readiness().set_check(database.clone());
/// assert_eq!(database.degraded(), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait ReadinessCheck: Send + Sync + Debug {
    /// Returns `None` if the source works.
    fn degraded(&self) -> Option<Degraded>;

    /// Adds the metrics of the source to `GET /metrics`.
    fn write_metrics(&self, metrics: &mut MetricsWriter) {
        let _ = metrics;
    }
}

/// The report of a [`ReadinessCheck`] that failed.
///
/// [`ReadinessCheck`] has an example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Degraded {
    /// Text of the member `reason` of `/readyz`.
    pub reason: String,
    /// More members of `/readyz`.
    pub details: Vec<(&'static str, u64)>,
    /// Time for which credentials that were verified before are still accepted. `None` if the source can be read and
    /// only other operations fail.
    pub credentials_accepted_for: Option<Duration>,
}

impl Readiness {
    /// Reports that the catalog is current.
    pub fn set_ready(&self) {
        self.lock().status = ReadinessStatus::Ready;
    }

    /// Reports that the catalog could not be loaded. Has no effect before the first [`set_ready`](Self::set_ready).
    pub fn set_failed(&self, reason: impl Into<String>) {
        let mut state = self.lock();
        if !matches!(state.status, ReadinessStatus::Starting) {
            state.status = ReadinessStatus::Stale(reason.into());
        }
    }

    /// Sets the check whose result `/readyz` and `/metrics` include.
    pub fn set_check(&self, check: Arc<dyn ReadinessCheck>) {
        self.lock().check = Some(check);
    }

    pub(super) fn state(&self) -> ReadinessState {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, ReadinessState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
