//! Listens for notifications of PostgreSQL.
//!
//! Uses a separate connection, and reconnects with an increasing delay. Notifications may be missed while there is no
//! connection, so each new connection counts as a change.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use callgate::internal::random_between;

/// Channel on which the triggers send notifications.
const CHANNEL: &str = "callgate";
/// Idle time after which the connection is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(15);
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// Listens for notifications. Starts with the first call of [`Self::changed`].
pub(super) struct Listener {
    connect_options: PgConnectOptions,
    timeout: Duration,
    changes: Arc<Notify>,
    /// The listening task. It is aborted when the listener is dropped.
    task: OnceLock<JoinSet<()>>,
}

/// Omits the connect options, which contain the password.
impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl Listener {
    pub(super) fn new(connect_options: PgConnectOptions, timeout: Duration) -> Self {
        Self { connect_options, timeout, changes: Arc::default(), task: OnceLock::new() }
    }

    /// Waits for a change. Several changes since the last call count as one.
    pub(super) async fn changed(&self) {
        self.task.get_or_init(|| {
            let mut task = JoinSet::new();
            let changes = Arc::clone(&self.changes);
            task.spawn(listen(self.connect_options.clone(), self.timeout, changes));
            task
        });
        self.changes.notified().await;
    }
}

async fn listen(options: PgConnectOptions, timeout: Duration, changes: Arc<Notify>) {
    let mut delay = FIRST_BACKOFF;
    loop {
        match connect(options.clone(), timeout).await {
            Ok(mut listener) => {
                delay = FIRST_BACKOFF;
                changes.notify_one();
                let reason = forward_notifications(&mut listener, timeout, &changes).await;
                tracing::debug!(error = reason, "lost the connection for change notifications");
            }
            Err(error) => {
                let error = error.to_string();
                tracing::debug!(error, "failed to listen for change notifications");
            }
        }
        tokio::time::sleep(random_between(delay / 2, delay)).await;
        delay = (delay * 2).min(MAX_BACKOFF);
    }
}

async fn connect(options: PgConnectOptions, timeout: Duration) -> sqlx::Result<PgListener> {
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(timeout)
        .max_lifetime(None)
        .idle_timeout(None)
        .connect_lazy_with(options);
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.eager_reconnect(false);
    listener.listen(CHANNEL).await?;
    Ok(listener)
}

/// Forwards notifications until the connection is lost. Returns the reason.
async fn forward_notifications(
    listener: &mut PgListener,
    timeout: Duration,
    changes: &Notify,
) -> String {
    loop {
        match tokio::time::timeout(CHECK_INTERVAL, listener.try_recv()).await {
            Ok(Ok(Some(_))) => changes.notify_one(),
            Ok(Ok(None)) => return "the connection was closed".to_owned(),
            Ok(Err(error)) => return error.to_string(),
            Err(_) => {
                let ping = sqlx::query("SELECT 1").execute(&mut *listener);
                match tokio::time::timeout(timeout, ping).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => return error.to_string(),
                    Err(_) => return "the server does not answer".to_owned(),
                }
            }
        }
    }
}
