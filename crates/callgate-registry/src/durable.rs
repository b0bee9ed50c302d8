//! What sessions become, and what clients send to other gateways, is kept in the registry or refused:
//! never kept here alone.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use callgate::BoxFuture;
use callgate::mcp::{KeepSessions, Nonce, Relay, SessionEdit, SessionState};
use thiserror::Error as ThisError;
use tokio::sync::Semaphore;

use crate::contact::Contact;
use crate::relay::StoredRelay;
use crate::sessions::StoredSessions;

/// How long the registry may take to keep something.
const LIMIT: Duration = Duration::from_secs(5);
/// So many of one kind are kept at once. In the database they wait for one row anyway; who waits here instead
/// takes no turn of other writers.
const AT_ONCE: usize = 2;

/// Keeps something while the registry is in reach.
#[derive(Debug)]
pub(crate) struct Durable<T> {
    stored: T,
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

type Kept<T> = Result<T, Box<dyn Error + Send + Sync>>;

impl<T> Durable<T> {
    pub(crate) fn new(stored: T, contact: &Arc<Contact>) -> Self {
        Self { stored, contact: Arc::clone(contact), turns: Semaphore::new(AT_ONCE) }
    }

    async fn kept<K>(&self, keep: BoxFuture<'_, Kept<K>>) -> Kept<K> {
        // Before the first look there was no failure either.
        if self.contact.age().is_some() && self.contact.is_away() {
            return Err(NotDurable::Away.into());
        }
        let in_turn = async {
            let _turn = self.turns.acquire().await?;
            keep.await
        };
        match tokio::time::timeout(LIMIT, in_turn).await {
            Ok(kept) => kept,
            Err(_) => Err(NotDurable::NoAnswer.into()),
        }
    }
}

impl KeepSessions for Durable<StoredSessions> {
    fn keep(
        &self,
        session: Nonce,
        edit: SessionEdit,
        ends_at: u64,
    ) -> BoxFuture<'_, Kept<SessionState>> {
        Box::pin(self.kept(self.stored.keep(session, edit, ends_at)))
    }
}

impl Relay for Durable<StoredRelay> {
    fn post(&self, session: Nonce, message: String) -> BoxFuture<'_, Kept<()>> {
        Box::pin(self.kept(self.stored.post(session, message)))
    }
}
