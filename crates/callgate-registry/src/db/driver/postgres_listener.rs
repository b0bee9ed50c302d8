//! What PostgreSQL tells of changes.
//!
//! On a connection of its own. One that is lost is made again, after a pause that grows; since nobody says
//! again what was said meanwhile, each new one counts as a change.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use callgate::internal::random_between;

/// What the triggers tell it on.
const CHANNEL: &str = "callgate";
/// How long nothing may be heard before the connection is tried: one that was cut off says nothing.
const SILENCE: Duration = Duration::from_secs(15);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Listens from the first time that somebody waits.
#[derive(Debug)]
pub(super) struct Listener {
    ear: Ear,
    told: Arc<Notify>,
    /// Ends with it.
    listening: OnceLock<JoinSet<()>>,
}

#[derive(Clone)]
struct Ear {
    connect: PgConnectOptions,
    timeout: Duration,
}

/// Not what it connects with, which has the password.
impl std::fmt::Debug for Ear {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ear").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl Listener {
    pub(super) fn new(connect: PgConnectOptions, timeout: Duration) -> Self {
        let ear = Ear { connect, timeout };
        Self { ear, told: Arc::default(), listening: OnceLock::new() }
    }

    /// Waits for a change. Many that come while nobody waits are one.
    pub(super) async fn changed(&self) {
        self.listening.get_or_init(|| {
            let mut listening = JoinSet::new();
            listening.spawn(listen(self.ear.clone(), Arc::clone(&self.told)));
            listening
        });
        self.told.notified().await;
    }
}

async fn listen(ear: Ear, told: Arc<Notify>) {
    let mut pause = FIRST_PAUSE;
    loop {
        match ear.open().await {
            Ok(mut listener) => {
                pause = FIRST_PAUSE;
                told.notify_one();
                let lost = hear(&mut listener, ear.timeout, &told).await;
                tracing::debug!(error = lost, "the database does not tell of changes any more");
            }
            Err(error) => {
                let error = error.to_string();
                tracing::debug!(error, "cannot listen for changes of the database");
            }
        }
        tokio::time::sleep(random_between(pause / 2, pause)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

impl Ear {
    async fn open(&self) -> sqlx::Result<PgListener> {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(self.timeout)
            .max_lifetime(None)
            .idle_timeout(None)
            .connect_lazy_with(self.connect.clone());
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.eager_reconnect(false);
        listener.listen(CHANNEL).await?;
        Ok(listener)
    }
}

/// Passes on what is heard, until the connection is lost.
async fn hear(listener: &mut PgListener, timeout: Duration, told: &Notify) -> String {
    loop {
        match tokio::time::timeout(SILENCE, listener.try_recv()).await {
            Ok(Ok(Some(_))) => told.notify_one(),
            Ok(Ok(None)) => return "the connection was closed".to_owned(),
            Ok(Err(error)) => return error.to_string(),
            Err(_) => {
                let asked = sqlx::query("SELECT 1").execute(&mut *listener);
                match tokio::time::timeout(timeout, asked).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => return error.to_string(),
                    Err(_) => return "the server does not answer".to_owned(),
                }
            }
        }
    }
}
