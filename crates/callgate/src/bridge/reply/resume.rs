//! Relays a response that is an event stream, and resumes the stream if the connection closes.
//!
//! The stream of the session itself is reopened in `event_stream.rs` (`listen_to`).

use std::time::{Duration, Instant};

use crate::bridge::reply::SentRequest;
use crate::bridge::reply::event_stream::{
    EventStream, MIN_RETRY_DELAY, RETRY_DELAY, is_stream, resume_headers,
};
use crate::bridge::session::OpenSession;
use crate::bridge::{Bridge, BridgeFailure};

impl Bridge {
    /// Relays a response that is an event stream. Resumes the stream if the connection closes.
    pub(crate) async fn relay_event_stream(
        &self,
        sent: &SentRequest<'_>,
        mut events: EventStream,
    ) -> Result<(), BridgeFailure> {
        let mut last_event_id = None;
        loop {
            let result = self.relay_events(sent, &mut events).await;
            if !self.in_flight.are_waiting(&sent.request.ids) {
                return Ok(());
            }
            let reason = result.err().map_or_else(String::new, |error| format!(" ({error})"));
            let broken = BridgeFailure::new(format!(
                "the stream of {} ended before the response arrived{reason}. The request may have been executed; \
                 check before you send it again",
                self.http.endpoint()
            ));
            if let Some(id) = events.decoder.last_event_id() {
                last_event_id = Some(id.to_owned());
            }
            // Streams of the modern era cannot be resumed.
            let Some(id) = last_event_id.as_deref().filter(|_| !sent.request.is_modern()) else {
                return Err(broken);
            };
            let session = self.session_for(sent.request);
            let delay = events.decoder.retry().unwrap_or(RETRY_DELAY);
            events = self.resume(id, session.as_deref(), delay).await.ok_or(broken)?;
        }
    }

    /// Resumes a stream after the event `id`. Returns `None` if the server does not resume the stream.
    async fn resume(
        &self,
        id: &str,
        session: Option<&OpenSession>,
        delay: Duration,
    ) -> Option<EventStream> {
        let headers =
            resume_headers(session.map(OpenSession::headers).unwrap_or_default(), Some(id));
        tokio::time::sleep(delay.max(MIN_RETRY_DELAY)).await;
        let deadline = Instant::now() + self.limits.request_wait;
        loop {
            match self.http.get(&headers).await {
                Ok(response) => {
                    return is_stream(&response)
                        .then(|| EventStream::new(response.into_body(), &self.limits));
                }
                Err(_) if Instant::now() < deadline => tokio::time::sleep(RETRY_DELAY).await,
                Err(_) => return None,
            }
        }
    }
}
