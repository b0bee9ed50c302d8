//! Clients that listen: `subscriptions/listen` in the modern era, a stream of their own in the legacy
//! one. They are told when their tools change, and let go when their credential is no longer good.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, Interval};

use super::connection::Connection;
use super::message::{OutMessage, ResultWriter, ServerInfo};
use super::news::News;
use super::reject::Reject;
use super::requested::Requested;
use super::running::{Entered, every};
use super::session::{Session, user_of};
use super::session_state::MAX_SUBSCRIPTIONS;
use super::session_streams::StreamPlace;
use super::tasks::Task;
use super::{Mcp, Terms};
use crate::access::Caller;
use crate::client::Capability;
use crate::upstream::BoxFuture;

/// How often a stream says that it is alive, and looks whether its caller still is.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Who is asking, as of now: a token may be revoked, and grants may change, while a client listens.
pub trait Identify: Send + Sync {
    /// The caller.
    fn identify(&self) -> BoxFuture<'_, Result<Caller, Unidentified>>;
}

/// Why it is not known who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unidentified {
    /// The credential is not good.
    #[error("the credential is not, or no longer, good")]
    Refused,
    /// Whether it is good cannot be found out just now.
    #[error("the credential cannot be checked just now; try again")]
    Unavailable,
}

/// Always the same.
impl Identify for Caller {
    fn identify(&self) -> BoxFuture<'_, Result<Caller, Unidentified>> {
        let caller = self.clone();
        Box::pin(async { Ok(caller) })
    }
}

/// What a stream sends next.
#[derive(Debug)]
pub enum Event {
    /// A message.
    Message(OutMessage),
    /// Only that it is alive.
    KeepAlive,
    /// That the client should leave, and come back after this long.
    ComeBack(Duration),
}

/// A client that listens.
pub struct Listener {
    mcp: Arc<Mcp>,
    who: Arc<dyn Identify>,
    /// The id of the request that opened it, in the modern era.
    subscription: Option<Box<RawValue>>,
    wants: Wants,
    /// To be sent before anything else.
    waiting: VecDeque<OutMessage>,
    /// The caller's tools as they were told last.
    content: u64,
    changes: watch::Receiver<u64>,
    news: broadcast::Receiver<News>,
    /// Only where the client wants to hear of some.
    tasks: Option<broadcast::Receiver<Arc<Task>>>,
    closing: watch::Receiver<bool>,
    alive: Interval,
    phase: Phase,
    /// Where the client can take it back.
    entered: Option<Entered>,
    /// The legacy session that it belongs to.
    session: Option<(Session, StreamPlace)>,
}

/// What a client wants to hear of.
#[derive(Debug)]
struct Wants {
    tools: bool,
    prompts: bool,
    resources: bool,
    updates: Subscribed,
    tasks: BTreeSet<String>,
}

/// The resources that a client wants to hear of.
#[derive(Debug)]
pub(super) enum Subscribed {
    /// Those that it named when it began.
    To(Arc<BTreeSet<String>>),
    /// Those of its session, as of now.
    BySession,
    /// Those of its connection, as of now.
    ByConnection(Arc<Connection>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// Only what waits is still sent.
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
        let updates = Subscribed::BySession;
        let (prompts, resources) = (mcp.prompts.is_some(), mcp.resources.is_some());
        let wants = Wants { tools: true, prompts, resources, updates, tasks: BTreeSet::new() };
        Self::new(mcp, caller, who, None, wants)
    }

    /// Hears what its connection subscribed to.
    #[must_use]
    pub fn over(mut self, connection: &Arc<Connection>) -> Self {
        self.wants.updates = Subscribed::ByConnection(Arc::clone(connection));
        self
    }

    /// Ends with its session, and speaks while it is the session's newest.
    pub(super) fn belongs_to(&mut self, session: Session, place: StreamPlace) {
        self.session = Some((session, place));
    }

    /// `subscriptions/listen`
    pub(super) fn modern(request: &Requested<'_>, who: Arc<dyn Identify>) -> Result<Self, Reject> {
        let Requested { mcp, caller, asked, .. } = *request;
        let Some(wanted) = asked.params.get("notifications") else {
            return Err(Reject::invalid_params("`notifications` is missing"));
        };
        let filter: Filter = serde_json::from_str(wanted.get()).map_err(|error| {
            let problem = crate::strict_json::problem(&error);
            Reject::invalid_params(format!("`notifications` must be an object: {problem}"))
        })?;
        let filter = filter.offered(request)?;
        let wants = Wants {
            tools: filter.tools_list_changed,
            prompts: filter.prompts_list_changed,
            resources: filter.resources_list_changed,
            updates: Subscribed::To(Arc::new(
                filter.resource_subscriptions.iter().cloned().collect(),
            )),
            tasks: filter.task_ids.iter().cloned().collect(),
        };
        let mut listener = Self::new(mcp, caller, who, Some(asked.id.to_owned()), wants);
        listener.waiting.push_back(listener.acknowledged(filter));
        listener.entered = request.scope.map(|scope| mcp.in_flight.enter(scope, asked.id));
        Ok(listener)
    }

    fn new(
        mcp: &Arc<Mcp>,
        caller: &Caller,
        who: Arc<dyn Identify>,
        subscription: Option<Box<RawValue>>,
        wants: Wants,
    ) -> Self {
        // In this order, so that no change is between the two.
        let changes = mcp.gateway.changes();
        let content = mcp.gateway.content_for(caller);
        let alive = every(KEEP_ALIVE, Instant::now());
        let tasks = (!wants.tasks.is_empty()).then(|| mcp.news.listen_to_tasks());
        Self {
            mcp: Arc::clone(mcp),
            who,
            subscription,
            wants,
            tasks,
            waiting: VecDeque::new(),
            content,
            changes,
            news: mcp.news.listen(),
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
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Some(Event::Message(message));
            }
            if self.phase != Phase::Open {
                return None;
            }
            let woken = self.woken().await;
            if matches!(woken, Woken::TakenBack) {
                self.phase = Phase::Over;
                return None;
            }
            // What does not concern this client costs nothing more.
            if !self.concerns(&woken) {
                continue;
            }
            let caller = match woken {
                Woken::Ended => None,
                _ => self.who.identify().await.ok().filter(|_| !self.has_ended()),
            };
            let Some(caller) = caller else {
                self.end();
                continue;
            };
            let caller = self.mcp.gateway.prepare_at_once(caller).await;
            let content = self.mcp.gateway.content_for(&caller);
            let is_new = std::mem::replace(&mut self.content, content) != content;
            if !self.is_told_elsewhere() {
                if is_new && self.wants.tools {
                    self.waiting.push_back(self.changed("notifications/tools/list_changed"));
                }
                self.tell(&woken, &caller).await;
            }
            if matches!(woken, Woken::Tick) && self.waiting.is_empty() {
                return Some(Event::KeepAlive);
            }
        }
    }

    fn concerns(&self, woken: &Woken) -> bool {
        match woken {
            Woken::News(Some(News::Prompts)) => self.wants.prompts,
            Woken::News(Some(News::Resources)) => self.wants.resources,
            Woken::News(Some(News::Resource(uri))) => self.subscriptions().contains(&**uri),
            Woken::Task(Some(task)) => self.wants.tasks.contains(&task.id),
            _ => true,
        }
    }

    async fn woken(&mut self) -> Woken {
        tokio::select! {
            biased;
            () = taken_back(&mut self.entered) => Woken::TakenBack,
            () = session_ended(&mut self.session) => Woken::Ended,
            _ = self.closing.wait_for(|is_closing| *is_closing) => Woken::Ended,
            changed = self.changes.changed() => match changed {
                Ok(()) => Woken::Tools,
                Err(_) => Woken::Ended,
            },
            news = self.news.recv() => match news {
                Ok(news) => Woken::News(Some(news)),
                Err(broadcast::error::RecvError::Lagged(_)) => Woken::News(None),
                Err(broadcast::error::RecvError::Closed) => Woken::Ended,
            },
            task = next_task(&mut self.tasks) => Woken::Task(task),
            _ = self.alive.tick() => Woken::Tick,
        }
    }

    fn has_ended(&self) -> bool {
        let session = self.session.as_ref();
        session.is_some_and(|(session, _)| self.mcp.sessions.state(session).ended)
    }

    fn is_told_elsewhere(&self) -> bool {
        self.session.as_ref().is_some_and(|(_, place)| !place.speaks())
    }

    /// Tells what the client wants to hear. Who was too slow to hear what happened hears that all of
    /// it may have.
    async fn tell(&mut self, woken: &Woken, caller: &Caller) {
        match woken {
            Woken::News(news) => self.tell_news(news.as_ref(), caller),
            Woken::Task(Some(task)) => self.tell_task(task, caller),
            Woken::Task(None) => {
                let ids: Vec<String> = self.wants.tasks.iter().cloned().collect();
                let mcp = Arc::clone(&self.mcp);
                for id in ids {
                    let Some(tasks) = &mcp.tasks else { break };
                    if let Ok(Some(task)) = tasks.find(&id, user_of(caller)).await {
                        self.tell_task(&task, caller);
                    }
                }
            }
            _ => {}
        }
    }

    fn tell_news(&mut self, news: Option<&News>, caller: &Caller) {
        let of = |is: fn(&News) -> bool| news.is_none_or(is);
        if self.wants.prompts && of(|news| matches!(news, News::Prompts)) {
            self.waiting.push_back(self.changed("notifications/prompts/list_changed"));
        }
        if self.wants.resources && of(|news| matches!(news, News::Resources)) {
            self.waiting.push_back(self.changed("notifications/resources/list_changed"));
        }
        let updated = match news {
            Some(News::Resource(uri)) => Arc::new(BTreeSet::from([uri.to_string()])),
            Some(_) => Arc::default(),
            None => self.subscriptions(),
        };
        let resources = self.mcp.resources.clone();
        let may_hear = |uri: &&String| resources.as_ref().is_none_or(|it| it.may_hear(caller, uri));
        for uri in updated.iter().filter(may_hear) {
            let params = Params { uri: Some(uri), ..self.params() };
            let message = OutMessage::notification("notifications/resources/updated", &params);
            self.waiting.push_back(message);
        }
    }

    /// As `tasks/get` would, and to whom it would.
    fn tell_task(&mut self, task: &Task, caller: &Caller) {
        if task.user == user_of(caller) {
            let params = TaskParams { task: task.members(true), params: self.params() };
            self.waiting.push_back(OutMessage::notification("notifications/tasks", &params));
        }
    }

    fn subscriptions(&self) -> Arc<BTreeSet<String>> {
        match &self.wants.updates {
            Subscribed::To(uris) => Arc::clone(uris),
            Subscribed::ByConnection(connection) => connection.agreed().subscriptions,
            Subscribed::BySession => {
                let session = self.session.as_ref().map(|(session, _)| session);
                let state = session.map(|session| self.mcp.sessions.state(session));
                state.unwrap_or_default().subscriptions
            }
        }
    }

    /// The modern era announces the end, and then gives the request its result.
    fn end(&mut self) {
        self.phase = Phase::Over;
        if let Some(id) = self.subscription.as_deref() {
            self.waiting.extend([cancelled(id), ended(id, &self.mcp)]);
        }
    }

    fn acknowledged(&self, accepted: Filter) -> OutMessage {
        let params = Params { notifications: Some(accepted), ..self.params() };
        OutMessage::notification("notifications/subscriptions/acknowledged", &params)
    }

    fn changed(&self, method: &str) -> OutMessage {
        OutMessage::notification(method, &self.params())
    }

    fn params(&self) -> Params<'_> {
        let meta = self.subscription.as_deref().map(|subscription| Meta { subscription });
        Params { meta, notifications: None, uri: None }
    }
}

async fn session_ended(session: &mut Option<(Session, StreamPlace)>) {
    match session {
        Some((_, place)) => place.ended().await,
        None => std::future::pending().await,
    }
}

async fn next_task(tasks: &mut Option<broadcast::Receiver<Arc<Task>>>) -> Option<Arc<Task>> {
    match tasks {
        // Closed is not: the listener has the newsroom.
        Some(tasks) => tasks.recv().await.ok(),
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
    notifications: Option<Filter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<&'a str>,
}

/// A task, as `tasks/get` would show it.
#[derive(Serialize)]
struct TaskParams<'a> {
    #[serde(flatten)]
    task: serde_json::Map<String, serde_json::Value>,
    #[serde(flatten)]
    params: Params<'a>,
}

/// What a modern client asks to hear, and what it is told that it will.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Filter {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    tools_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    prompts_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    resources_list_changed: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resource_subscriptions: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    task_ids: Vec<String>,
}

impl Filter {
    /// What of it there is.
    fn offered(mut self, request: &Requested<'_>) -> Result<Self, Reject> {
        let mcp = request.mcp;
        if mcp.tasks.is_none() {
            self.task_ids.clear();
        }
        if !self.task_ids.is_empty() && !request.capabilities.has(Capability::Tasks) {
            return Err(Reject::lacks(Capability::Tasks));
        }
        self.prompts_list_changed &= mcp.prompts.is_some();
        self.resources_list_changed &= mcp.resources.is_some();
        if !mcp.can_subscribe() {
            self.resource_subscriptions.clear();
        }
        let named = self.resource_subscriptions.iter().chain(&self.task_ids);
        if named.map(String::len).sum::<usize>() > MAX_SUBSCRIPTIONS {
            let problem = format!("no more than {MAX_SUBSCRIPTIONS} bytes of addresses and ids");
            return Err(Reject::invalid_params(problem));
        }
        Ok(self)
    }
}

/// Why a listener looks.
enum Woken {
    /// The client took its request back.
    TakenBack,
    /// The session or the server ends.
    Ended,
    /// The tools may have changed.
    Tools,
    /// Something happened; more than could be heard where it is nothing in particular.
    News(Option<News>),
    /// A task changed; more than could be heard where it is none in particular.
    Task(Option<Arc<Task>>),
    Tick,
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
    let reason = "the server stops, or the credential is no longer good or cannot be checked";
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
