//! Changes of sessions and messages to other gateways are stored in the registry or refused: never kept here
//! alone.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use callgate::mcp::{Nonce, Relay, SessionEdit, SessionState, SessionStore};
use callgate::upstream::BoxFuture;
use thiserror::Error as ThisError;
use tokio::sync::Semaphore;

use crate::auth::health::Contact;
use crate::follow::sessions;
use crate::hex::to_hex;
use crate::store::Result;
use crate::store::Store;

/// Time limit for storing something.
const LIMIT: Duration = Duration::from_secs(5);
/// Number of writes at once. In the database they wait for one row anyway; who waits here instead takes no turn of
/// other writers.
const AT_ONCE: usize = 2;

/// Stores changes of sessions, or messages to other gateways, while the registry is in reach.
#[derive(Debug)]
pub(crate) struct Durable {
    store: Arc<dyn Store>,
    contact: Arc<Contact>,
    turns: Semaphore,
}

#[derive(Debug, ThisError)]
enum NotDurable {
    #[error("the registry cannot be read just now")]
    Away,
    #[error("the registry did not answer within {LIMIT:?}")]
    NoAnswer,
}

type Stored<T> = Result<T, Box<dyn Error + Send + Sync>>;

impl Durable {
    pub(crate) fn new(store: &Arc<dyn Store>, contact: &Arc<Contact>) -> Self {
        let (store, contact) = (Arc::clone(store), Arc::clone(contact));
        Self { store, contact, turns: Semaphore::new(AT_ONCE) }
    }

    async fn write<T>(&self, write: impl Future<Output = Result<T>>) -> Stored<T> {
        // Before the first look there was no failure either.
        if self.contact.age().is_some() && self.contact.is_away() {
            return Err(NotDurable::Away.into());
        }
        let in_turn = async {
            let _turn = self.turns.acquire().await?;
            Ok(write.await?)
        };
        let stored = tokio::time::timeout(LIMIT, in_turn).await;
        stored.unwrap_or_else(|_| Err(NotDurable::NoAnswer.into()))
    }
}

impl SessionStore for Durable {
    fn update(
        &self,
        session: Nonce,
        edit: SessionEdit,
        ends_at: u64,
    ) -> BoxFuture<'_, Stored<SessionState>> {
        Box::pin(self.write(sessions::store(&*self.store, session, edit, ends_at)))
    }
}

impl Relay for Durable {
    fn post(&self, session: Nonce, message: String) -> BoxFuture<'_, Stored<()>> {
        let session = to_hex(&session);
        Box::pin(self.write(async move { self.store.post_message(&session, &message).await }))
    }
}
