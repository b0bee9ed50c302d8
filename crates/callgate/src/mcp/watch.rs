//! Clients that listen: `subscriptions/listen` in the modern era, a stream of their own in the legacy
//! one. They are told when their tools change, and let go when their credential is no longer good.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::time::{Instant, Interval};

use super::classify::Asked;
use super::message::{OutMessage, ResultWriter, ServerInfo};
use super::reject::Reject;
use super::running::{Entered, every};
use super::session::Session;
use super::session_streams::StreamPlace;
use super::{Mcp, Terms};
use crate::access::Caller;
use crate::upstream::BoxFuture;

/// How often a stream says that it is alive, and looks whether its caller still is.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Who is asking, as of now: a token may be revoked, and grants may change, while a client listens.
pub trait Identify: Send + Sync {
    /// The caller, or `None` where the credential is no longer good.
    fn identify(&self) -> BoxFuture<'_, Option<Caller>>;
}

/// What a stream sends next.
#[derive(Debug)]
pub enum Event {
    /// A message.
    Message(OutMessage),
    /// Only that it is alive.
    KeepAlive,
}

/// A client that listens.
pub struct Listener {
    mcp: Arc<Mcp>,
    who: Arc<dyn Identify>,
    /// The id of the request that opened it, in the modern era.
    subscription: Option<Box<RawValue>>,
    wants_tools: bool,
    /// To be sent before anything else.
    first: Option<OutMessage>,
    /// The caller's tools as they were told last.
    content: u64,
    changes: watch::Receiver<u64>,
    closing: watch::Receiver<bool>,
    alive: Interval,
    phase: Phase,
    /// Where the client can take it back.
    entered: Option<Entered>,
    /// The legacy session that it belongs to.
    session: Option<(Session, StreamPlace)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// The end was announced; the result follows.
    Ending,
    Over,
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("phase", &self.phase).finish_non_exhaustive()
    }
}

impl Listener {
    /// A legacy client's own stream.
    pub fn legacy(mcp: &Arc<Mcp>, caller: &Caller, who: Arc<dyn Identify>) -> Self {
        Self::new(mcp, caller, who, None, true)
    }

    /// Ends with its session, and speaks while it is the session's newest.
    pub(super) fn belongs_to(&mut self, session: Session, place: StreamPlace) {
        self.session = Some((session, place));
    }

    /// `subscriptions/listen`
    pub(super) fn modern(
        mcp: &Arc<Mcp>,
        caller: &Caller,
        who: Arc<dyn Identify>,
        asked: &Asked<'_>,
        entered: Option<Entered>,
    ) -> Result<Self, Reject> {
        let Some(wanted) = asked.params.get("notifications") else {
            return Err(Reject::invalid_params("`notifications` is missing"));
        };
        let wanted: Map<String, Value> = serde_json::from_str(wanted.get())
            .map_err(|_| Reject::invalid_params("`notifications` must be an object"))?;
        let wants_tools = wanted.get("toolsListChanged").and_then(Value::as_bool) == Some(true);
        let mut listener = Self::new(mcp, caller, who, Some(asked.id.to_owned()), wants_tools);
        listener.first = Some(listener.acknowledged());
        listener.entered = entered;
        Ok(listener)
    }

    fn new(
        mcp: &Arc<Mcp>,
        caller: &Caller,
        who: Arc<dyn Identify>,
        subscription: Option<Box<RawValue>>,
        wants_tools: bool,
    ) -> Self {
        // In this order, so that no change is between the two.
        let changes = mcp.gateway.changes();
        let content = mcp.gateway.content_for(caller);
        let alive = every(KEEP_ALIVE, Instant::now());
        Self {
            mcp: Arc::clone(mcp),
            who,
            subscription,
            wants_tools,
            first: None,
            content,
            changes,
            closing: mcp.closing(),
            alive,
            phase: Phase::Open,
            entered: None,
            session: None,
        }
    }

    /// What is told where there is no place for it: with the id of the request that opened it, which
    /// a legacy stream does not have.
    pub fn refused(&self, reject: Reject) -> Reject {
        match self.subscription.as_deref() {
            Some(id) => reject.of(id),
            None => reject,
        }
    }

    /// What to send next; `None` at the end.
    pub async fn next(&mut self) -> Option<Event> {
        if let Some(first) = self.first.take() {
            return Some(Event::Message(first));
        }
        while self.phase == Phase::Open {
            let is_tick = tokio::select! {
                biased;
                () = taken_back(&mut self.entered) => {
                    self.phase = Phase::Over;
                    return None;
                }
                () = session_ended(&mut self.session) => {
                    self.phase = Phase::Ending;
                    break;
                }
                _ = self.closing.wait_for(|is_closing| *is_closing) => {
                    self.phase = Phase::Ending;
                    break;
                }
                changed = self.changes.changed() => {
                    if changed.is_err() {
                        self.phase = Phase::Ending;
                        break;
                    }
                    false
                }
                _ = self.alive.tick() => true,
            };
            let has_ended = self
                .session
                .as_ref()
                .is_some_and(|(session, _)| self.mcp.sessions.state(session).ended);
            let Some(caller) = self.who.identify().await.filter(|_| !has_ended) else {
                self.phase = Phase::Ending;
                break;
            };
            let content = self.mcp.gateway.content_for(&caller);
            let is_told_elsewhere = self.session.as_ref().is_some_and(|(_, place)| !place.speaks());
            let is_new = std::mem::replace(&mut self.content, content) != content;
            if is_new && self.wants_tools && !is_told_elsewhere {
                return Some(Event::Message(self.list_changed()));
            }
            if is_tick {
                return Some(Event::KeepAlive);
            }
        }
        self.end()
    }

    /// The modern era announces the end, and then gives the request its result.
    fn end(&mut self) -> Option<Event> {
        let id = self.subscription.as_deref()?;
        let message = match self.phase {
            Phase::Open | Phase::Over => return None,
            Phase::Ending => {
                self.first = Some(ended(id, &self.mcp));
                cancelled(id)
            }
        };
        self.phase = Phase::Over;
        Some(Event::Message(message))
    }

    fn acknowledged(&self) -> OutMessage {
        let mut accepted = Map::new();
        if self.wants_tools {
            accepted.insert("toolsListChanged".to_owned(), Value::Bool(true));
        }
        let params = Params { notifications: Some(accepted), ..self.params() };
        OutMessage::notification("notifications/subscriptions/acknowledged", &params)
    }

    fn list_changed(&self) -> OutMessage {
        OutMessage::notification("notifications/tools/list_changed", &self.params())
    }

    fn params(&self) -> Params<'_> {
        let meta = self.subscription.as_deref().map(|subscription| Meta { subscription });
        Params { meta, notifications: None }
    }
}

async fn session_ended(session: &mut Option<(Session, StreamPlace)>) {
    match session {
        Some((_, place)) => place.ended().await,
        None => std::future::pending().await,
    }
}

async fn taken_back(entered: &mut Option<Entered>) {
    match entered {
        Some(entered) => entered.cancelled().await,
        None => std::future::pending().await,
    }
}

#[derive(Serialize)]
struct Params<'a> {
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Meta<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notifications: Option<Map<String, Value>>,
}

#[derive(Serialize)]
struct Meta<'a> {
    #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
    subscription: &'a RawValue,
}

fn cancelled(id: &RawValue) -> OutMessage {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Cancelled<'a> {
        request_id: &'a RawValue,
        reason: &'static str,
        #[serde(rename = "_meta")]
        meta: Meta<'a>,
    }
    let reason = "the server stops, or the credential is no longer good";
    let params = Cancelled { request_id: id, reason, meta: Meta { subscription: id } };
    OutMessage::notification("notifications/cancelled", &params)
}

fn ended(id: &RawValue, mcp: &Mcp) -> OutMessage {
    #[derive(Serialize)]
    struct EndMeta<'a> {
        #[serde(flatten)]
        meta: Meta<'a>,
        #[serde(rename = "io.modelcontextprotocol/serverInfo")]
        server: ServerInfo<'a>,
    }
    let settings = mcp.gateway.settings();
    let mut result = ResultWriter::new(id, Terms::MODERN.revision, 100);
    let meta = Meta { subscription: id };
    result.value("_meta", &EndMeta { meta, server: ServerInfo::of(&settings) });
    result.end()
}
