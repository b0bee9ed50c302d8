//! Sends notifications and responses of the client, in order.

use bytes::Bytes;
use tokio::sync::{mpsc, watch};

use crate::bridge::receive::message::{CANCELLED, INITIALIZED, OneWayMessage};
use crate::bridge::send::retry::SendPolicy;
use crate::bridge::send::{ErrorResponse, client, modern_headers};
use crate::bridge::session::OpenSession;
use crate::bridge::{Bridge, BridgeFailure};

pub(crate) type Numbered = (u64, OneWayMessage);

impl Bridge {
    /// Sends the queued messages. Sets `last_sent` to the number of each message once it is sent.
    pub(crate) async fn send_one_way_messages(
        &self,
        mut queue: mpsc::Receiver<Numbered>,
        last_sent: watch::Sender<u64>,
    ) {
        while let Some((number, other)) = queue.recv().await {
            let sending = tokio::time::timeout(self.limits.send_timeout, self.send_one_way(&other));
            let what = other.method.as_deref().unwrap_or("a response of the client");
            match sending.await {
                Ok(Ok(())) => {}
                Ok(Err(failure)) => tracing::warn!("failed to send {what}: {}", failure.message()),
                Err(_) => tracing::warn!("failed to send {what}: timed out"),
            }
            last_sent.send_replace(number);
        }
    }

    async fn send_one_way(&self, other: &OneWayMessage) -> Result<(), BridgeFailure> {
        let live = self.session.live().filter(|_| other.version.is_none());
        let Some(refusal) = self.try_send_one_way(other, live.as_deref()).await? else {
            if let Some(live) = live.filter(|_| other.method.as_deref() == Some(INITIALIZED)) {
                self.session.set_ready(live.generation);
            }
            return Ok(());
        };
        let lost = live.filter(|live| live.id.is_some() && refusal.is_lost_session());
        let Some(live) = lost else { return Err(refusal.failure(&self.http)) };
        match other.method.as_deref() {
            // The request to which this message refers was lost with the session.
            None | Some(CANCELLED) => Ok(()),
            // Reopening the session also sends `notifications/initialized`.
            Some(INITIALIZED) => self.reopen_session(&live).await,
            Some(_) => {
                self.reopen_session(&live).await?;
                match self.try_send_one_way(other, self.session.live().as_deref()).await? {
                    Some(refusal) => Err(refusal.failure(&self.http)),
                    None => Ok(()),
                }
            }
        }
    }

    /// Sends a message. Returns the response if it has an HTTP error status.
    async fn try_send_one_way(
        &self,
        other: &OneWayMessage,
        live: Option<&OpenSession>,
    ) -> Result<Option<ErrorResponse>, BridgeFailure> {
        let headers = match (&other.version, live) {
            (None, live) => live.map(OpenSession::headers).unwrap_or_default(),
            (Some(version), _) => modern_headers(version, other.method.as_deref()),
        };
        let response = self
            .post_with_retries(&SendPolicy::default(), &headers, Bytes::clone(&other.body))
            .await?;
        if !response.status().is_success() {
            return Ok(Some(ErrorResponse::read(response, &self.http).await));
        }
        client::drain(response).await;
        Ok(None)
    }
}
