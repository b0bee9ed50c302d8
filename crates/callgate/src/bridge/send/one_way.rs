//! Sends notifications and responses of the client, in order.

use tokio::sync::{mpsc, watch};

use crate::bridge::receive::Handshake;
use crate::bridge::receive::message::{CANCELLED, ClientMessage, INITIALIZED};
use crate::bridge::send::retry::SendPolicy;
use crate::bridge::send::{ErrorResponse, client};
use crate::bridge::session::OpenSession;
use crate::bridge::{Bridge, BridgeFailure};

/// A queued message.
pub(crate) struct QueuedMessage {
    pub(crate) number: u64,
    pub(crate) message: ClientMessage,
    pub(crate) handshake: Handshake,
}

impl Bridge {
    /// Sends the queued messages. After each message that was sent or could not be sent, sets `last_sent` to the number
    /// of the message.
    pub(crate) async fn send_one_way_messages(
        &self,
        mut queue: mpsc::Receiver<QueuedMessage>,
        last_sent: watch::Sender<u64>,
    ) {
        while let Some(QueuedMessage { number, message, mut handshake }) = queue.recv().await {
            handshake.ended().await;
            let sending =
                tokio::time::timeout(self.limits.send_timeout, self.send_one_way(&message));
            let message_name = match &*message.method {
                "" => "a response of the client",
                method => method,
            };
            match sending.await {
                Ok(Ok(())) => {}
                Ok(Err(failure)) => {
                    tracing::warn!("failed to send {message_name}: {}", failure.message());
                }
                Err(_) => tracing::warn!("failed to send {message_name}: timed out"),
            }
            last_sent.send_replace(number);
        }
    }

    async fn send_one_way(&self, message: &ClientMessage) -> Result<(), BridgeFailure> {
        let session = self.session_for(message);
        let Some(refusal) = self.try_send_one_way(message, session.as_deref()).await? else {
            if let Some(session) = session.filter(|_| &*message.method == INITIALIZED) {
                self.session.set_ready(session.generation);
            }
            return Ok(());
        };
        let lost = session.filter(|session| session.id.is_some() && refusal.is_lost_session());
        let Some(session) = lost else { return Err(refusal.failure(&self.http)) };
        match &*message.method {
            // The request to which this message refers was lost with the session.
            "" | CANCELLED => Ok(()),
            // Reopening the session also sends `notifications/initialized`.
            INITIALIZED => self.reopen_session(&session).await,
            _ => {
                self.reopen_session(&session).await?;
                match self.try_send_one_way(message, self.session.current().as_deref()).await? {
                    Some(refusal) => Err(refusal.failure(&self.http)),
                    None => Ok(()),
                }
            }
        }
    }

    /// Sends a message. Returns the response if it has an HTTP error status.
    async fn try_send_one_way(
        &self,
        message: &ClientMessage,
        session: Option<&OpenSession>,
    ) -> Result<Option<ErrorResponse>, BridgeFailure> {
        let (policy, headers) = (SendPolicy::default(), self.headers_of(message, session));
        let response = self.post_with_retries(&policy, &headers, message.body.clone()).await?;
        if !response.status().is_success() {
            return Ok(Some(ErrorResponse::read(response, &self.http).await));
        }
        client::drain(response).await;
        Ok(None)
    }
}
