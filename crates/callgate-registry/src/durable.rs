//! What sessions become is kept in the registry, or refused: never kept here alone.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use callgate::BoxFuture;
use callgate::mcp::{KeepSessions, SessionChange};
use thiserror::Error as ThisError;

use crate::contact::Contact;
use crate::sessions::StoredSessions;

/// How long the registry may take to keep something.
const LIMIT: Duration = Duration::from_secs(5);

/// Keeps what sessions become while the registry is in reach.
#[derive(Debug)]
pub(crate) struct DurableSessions {
    pub(crate) stored: StoredSessions,
    pub(crate) contact: Arc<Contact>,
}

#[derive(Debug, ThisError)]
enum NotDurable {
    #[error("the registry cannot be read just now")]
    Away,
    #[error("the registry did not answer within {LIMIT:?}")]
    NoAnswer,
}

impl KeepSessions for DurableSessions {
    fn keep(
        &self,
        change: SessionChange,
    ) -> BoxFuture<'_, Result<(), Box<dyn Error + Send + Sync>>> {
        Box::pin(async move {
            // Before the first look there was no failure either.
            if self.contact.age().is_some() && self.contact.is_away() {
                return Err(NotDurable::Away.into());
            }
            match tokio::time::timeout(LIMIT, self.stored.keep(change)).await {
                Ok(kept) => kept,
                Err(_) => Err(NotDurable::NoAnswer.into()),
            }
        })
    }
}
