//! Messages without a response, which are sent in order, one after the other.

use bytes::Bytes;
use tokio::sync::{mpsc, watch};

use super::Bridge;
use super::client;
use super::failure::Failure;
use super::forward::{Delivery, Refusal, modern_headers};
use super::message::{CANCELLED, INITIALIZED, Other};
use super::session::Live;

/// Maximum size of the response to a notification, which is not used.
const MAX_BODY: usize = 1 << 16;

/// A message with its number.
pub(super) type Numbered = (u64, Other);

impl Bridge {
    /// Sends the messages of the queue; `told` is the number of the last that is done.
    pub(super) async fn tell_all(
        &self,
        mut queue: mpsc::Receiver<Numbered>,
        told: watch::Sender<u64>,
    ) {
        while let Some((number, other)) = queue.recv().await {
            let telling = tokio::time::timeout(self.limits.delivery, self.tell(&other));
            let what = other.method.as_deref().unwrap_or("an answer of the client");
            match telling.await {
                Ok(Ok(())) => {}
                Ok(Err(failure)) => tracing::warn!("{what} was not taken: {}", failure.words()),
                Err(_) => tracing::warn!("{what} was not taken in time"),
            }
            told.send_replace(number);
        }
    }

    async fn tell(&self, other: &Other) -> Result<(), Failure> {
        let live = self.session.live().filter(|_| other.version.is_none());
        let Some(refusal) = self.told(other, live.as_deref()).await? else {
            if let Some(live) = live.filter(|_| other.method.as_deref() == Some(INITIALIZED)) {
                self.session.set_ready(live.generation);
            }
            return Ok(());
        };
        let lost = live.filter(|live| live.id.is_some() && refusal.is_lost_session());
        let Some(live) = lost else { return Err(refusal.failure(&self.http)) };
        match other.method.as_deref() {
            // What they are about went with the session.
            None | Some(CANCELLED) => Ok(()),
            // Which is a part of renewing it.
            Some(INITIALIZED) => self.renew(&live).await,
            Some(_) => {
                self.renew(&live).await?;
                match self.told(other, self.session.live().as_deref()).await? {
                    Some(refusal) => Err(refusal.failure(&self.http)),
                    None => Ok(()),
                }
            }
        }
    }

    /// Sends a message once; returns the refusal if it was not taken.
    async fn told(&self, other: &Other, live: Option<&Live>) -> Result<Option<Refusal>, Failure> {
        let headers = match (&other.version, live) {
            (None, live) => live.map(Live::headers).unwrap_or_default(),
            (Some(version), _) => modern_headers(version, other.method.as_deref()),
        };
        let response =
            self.deliver(&Delivery::default(), &headers, Bytes::clone(&other.body)).await?;
        if !response.status().is_success() {
            return Ok(Some(Refusal::read(response, &self.http).await));
        }
        // So that the connection can be used again.
        let _ = client::text(response.into_body(), MAX_BODY).await;
        Ok(None)
    }
}
