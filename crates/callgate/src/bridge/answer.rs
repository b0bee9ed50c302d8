//! A request and its answer: one, whatever happens.

use std::time::{Duration, Instant};

use http::Response;
use http::header::HeaderValue;
use hyper::body::Incoming;
use serde_json::value::RawValue;

use super::Bridge;
use super::client::{self, BodyError, Kind};
use super::failure::{Failure, IS_THAT_IT, error_message};
use super::forward::Refusal;
use super::message::{FromServer, Id, Request, Revision, from_server, rpc_error};
use super::session::Live;
use super::stream::{EventStream, MIN_PAUSE, PAUSE, is_stream, resuming};
use crate::mcp::parse::headers::SESSION_ID;
use crate::mcp::reply::compact::compact;
use crate::wire::jsonrpc::RpcError;

/// How long a stream may stay open when everything is answered.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// A request that was accepted.
pub(super) struct Asked<'a> {
    request: &'a Request,
    /// The session that it opens.
    session_id: Option<HeaderValue>,
}

impl Bridge {
    /// Answers a request.
    pub(super) async fn answer(&self, request: &Request) {
        if let Err(failure) = self.exchange(request).await {
            for id in &request.ids {
                self.fail(id, &failure).await;
            }
        }
        // Whatever became of them, these ids are free.
        for id in &request.ids {
            self.in_flight.answer(id);
        }
    }

    /// Tells the client that a request has no answer.
    pub(super) async fn fail(&self, id: &Id, failure: &Failure) {
        if self.in_flight.answer(id) {
            tracing::warn!("{}", failure.words());
            self.write(failure.message(id, self.http.endpoint())).await;
        }
    }

    async fn exchange(&self, request: &Request) -> Result<(), Failure> {
        let response = match self.send(request).await? {
            Ok(response) => response,
            Err(refusal) => return self.refused(request, refusal).await,
        };
        let session_id = response.headers().get(SESSION_ID).cloned();
        let asked = Asked { request, session_id };
        match client::kind(response.headers()) {
            Kind::Events => {
                let events = EventStream::new(response.into_body(), &self.limits);
                self.follow(&asked, events).await
            }
            Kind::Json => self.whole(&asked, response).await,
            Kind::Empty | Kind::Other => {
                let status = response.status();
                let words = format!(
                    "{} answered HTTP {status} with neither JSON nor a stream. {IS_THAT_IT}",
                    self.http.endpoint()
                );
                Err(Failure::new(words).with_status(status))
            }
        }
    }

    async fn refused(&self, request: &Request, refusal: Refusal) -> Result<(), Failure> {
        if request.is_handshake() && refusal.is_about_the_era() {
            let requested = request.params().map(|Revision { version }| version);
            return Err(refusal.era_failure(&self.http, requested.as_deref()));
        }
        match &refusal.json {
            // The server's own words are better than ours.
            Some(json) => {
                if matches!(refusal.status.as_u16(), 401 | 403) {
                    tracing::warn!("{}", refusal.failure(&self.http).words());
                }
                let asked = Asked { request, session_id: None };
                self.pass(json, Some(&asked)).await;
                self.must_be_answered(request)
            }
            None => Err(refusal.failure(&self.http)),
        }
    }

    /// An answer in one piece.
    async fn whole(&self, asked: &Asked<'_>, response: Response<Incoming>) -> Result<(), Failure> {
        let json = client::text(response.into_body(), self.limits.body_bytes).await;
        let json = json.map_err(|error| Failure::of_body(self.http.endpoint(), &error))?;
        if json.trim_start().starts_with('[') {
            self.pass_batch(&json, asked).await;
        } else {
            self.pass(&json, Some(asked)).await;
        }
        self.must_be_answered(asked.request)
    }

    fn must_be_answered(&self, request: &Request) -> Result<(), Failure> {
        if self.in_flight.are_waiting(&request.ids) {
            let endpoint = self.http.endpoint();
            let words = format!("what {endpoint} answered is no answer to the request");
            let is_first = request.opens();
            return Err(Failure::new(if is_first {
                format!("{words}. {IS_THAT_IT}")
            } else {
                words
            }));
        }
        Ok(())
    }

    /// An answer at the end of a stream, which may break and go on.
    async fn follow(&self, asked: &Asked<'_>, mut events: EventStream) -> Result<(), Failure> {
        let mut last_event_id = None;
        loop {
            let ended = self.pass_events(asked, &mut events).await;
            if !self.in_flight.are_waiting(&asked.request.ids) {
                return Ok(());
            }
            let why = ended.err().map_or_else(String::new, |error| format!(" ({error})"));
            let broken = Failure::new(format!(
                "the stream of {} ended before the answer came{why}. The request may have been carried \
                 out; look before you send it again",
                self.http.endpoint()
            ));
            if let Some(id) = events.reader.last_event_id() {
                last_event_id = Some(id.to_owned());
            }
            // The modern era has no resumption.
            let Some(id) = last_event_id.as_deref().filter(|_| asked.request.modern.is_none())
            else {
                return Err(broken);
            };
            let live = self.session_of(asked.request);
            let pause = events.reader.retry().unwrap_or(PAUSE);
            events = self.resume(id, live.as_deref(), pause).await.ok_or(broken)?;
        }
    }

    async fn pass_events(
        &self,
        asked: &Asked<'_>,
        events: &mut EventStream,
    ) -> Result<(), BodyError> {
        loop {
            let json = if self.in_flight.are_waiting(&asked.request.ids) {
                events.next().await?
            } else {
                // So that the connection can be used again.
                tokio::time::timeout(LINGER, events.next()).await.unwrap_or(Ok(None))?
            };
            let Some(json) = json else { return Ok(()) };
            self.pass(&json, Some(asked)).await;
        }
    }

    /// A stream from where another one broke, if the server still has it.
    async fn resume(&self, id: &str, live: Option<&Live>, pause: Duration) -> Option<EventStream> {
        let headers = resuming(live.map(Live::headers).unwrap_or_default(), Some(id));
        tokio::time::sleep(pause.max(MIN_PAUSE)).await;
        let end = Instant::now() + self.limits.patience;
        loop {
            match self.http.get(&headers).await {
                Ok(response) => {
                    return is_stream(&response)
                        .then(|| EventStream::new(response.into_body(), &self.limits));
                }
                Err(_) if Instant::now() < end => tokio::time::sleep(PAUSE).await,
                Err(_) => return None,
            }
        }
    }

    /// Hands a message of the server to the client.
    pub(super) async fn pass(&self, json: &str, asked: Option<&Asked<'_>>) {
        let Some(message) = from_server(json) else {
            tracing::warn!("the server sent something that is no message");
            return;
        };
        if message.method.is_some() {
            self.write(compact(json).into_owned().into_bytes()).await;
            return;
        }
        let Some(id) = message.id else {
            if let (Some(error), Some(asked)) = (rpc_error(&message), asked) {
                self.pass_nameless(&error, &asked.request.ids).await;
            }
            return;
        };
        let id = Id::of(id);
        if let Some(asked) = asked.filter(|asked| asked.request.ids.contains(&id)) {
            self.note(asked, &message);
        }
        if self.in_flight.answer(&id) {
            self.write(compact(json).into_owned().into_bytes()).await;
        }
    }

    /// Answers to a batch, each of them once.
    async fn pass_batch(&self, json: &str, asked: &Asked<'_>) {
        let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(json) else { return };
        let (mut wanted, mut nameless) = (Vec::with_capacity(items.len()), None);
        for item in &items {
            let Some(message) = from_server(item.get()) else { continue };
            match message.id {
                Some(id) if message.method.is_none() && !self.in_flight.answer(&Id::of(id)) => {}
                None if message.method.is_none() => nameless = rpc_error(&message).or(nameless),
                _ => wanted.push(*item),
            }
        }
        if wanted.len() == items.len() {
            self.write(compact(json).into_owned().into_bytes()).await;
        } else if !wanted.is_empty() {
            let items: Vec<_> = wanted.iter().map(|item| compact(item.get())).collect();
            self.write(format!("[{}]", items.join(",")).into_bytes()).await;
        }
        if let Some(error) = nameless {
            self.pass_nameless(&error, &asked.request.ids).await;
        }
    }

    /// An error about a message that the server could not read: it is the answer to all that wait.
    async fn pass_nameless(&self, error: &RpcError, ids: &[Id]) {
        for id in ids {
            if self.in_flight.answer(id) {
                self.write(error_message(Some(id.as_json()), error)).await;
            }
        }
    }

    /// What the bridge itself learns from an answer.
    fn note(&self, asked: &Asked<'_>, message: &FromServer<'_>) {
        let Some(result) = message.result else { return };
        if asked.request.is_handshake() {
            self.settings.forget();
            self.session.open(&asked.request.body, asked.session_id.clone(), result);
        } else if asked.request.modern.is_none() {
            self.settings.note(asked.request);
        } else if &*asked.request.method == "tools/list" {
            self.param_headers.learn(result);
        }
    }
}
