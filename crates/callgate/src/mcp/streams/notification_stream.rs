//! Clients that listen: `subscriptions/listen` in the modern era, a stream of their own in the legacy
//! one. They are told when their tools change, and disconnected when their credential is no longer good.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::watch;
use tokio::time::{Instant, Interval};

use super::event::{Change, Event, Identify, KEEP_ALIVE};
use crate::access::Caller;
use crate::mcp::Mcp;
use crate::mcp::calls::context::RequestContext;
use crate::mcp::calls::in_flight::{Cancellation, Key};
use crate::mcp::calls::running_call::every;
use crate::mcp::features::tasks::Task;
use crate::mcp::reply::error::Reject;
use crate::mcp::reply::message::{OutMessage, ResultWriter, ServerInfo};
use crate::mcp::sessions::connection::Connection;
use crate::mcp::sessions::session::{Session, user_of};
use crate::mcp::sessions::state::MAX_SUBSCRIPTIONS;
use crate::upstream::client::Capability;
use crate::wire::revision::Revision;

/// A client that listens.
pub struct Listener {
    mcp: Arc<Mcp>,
    identify: Arc<dyn Identify>,
    /// The id of the request that opened it, in the modern era.
    subscription: Option<Box<RawValue>>,
    filter: Filter,
    /// Addresses of resources that were named when it was opened.
    resources: Arc<BTreeSet<String>>,
    /// The connection whose subscriptions count.
    connection: Option<Arc<Connection>>,
    /// The legacy session that it belongs to.
    session: Option<Session>,
    /// Messages to be sent first.
    waiting: VecDeque<OutMessage>,
    /// Digest of the caller's tools when they were last reported.
    content: u64,
    tools: watch::Receiver<u64>,
    changes: broadcast::Receiver<Change>,
    tasks: Option<broadcast::Receiver<Arc<Task>>>,
    closing: watch::Receiver<bool>,
    cancellation: Option<Cancellation>,
    alive: Interval,
    is_over: bool,
}

/// What a modern client asks to be told, and what it is told that it will be.
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
    /// Reads what the client asks for, reduced to what the server offers.
    fn of(context: &RequestContext<'_>) -> Result<Self, Reject> {
        let mcp = context.mcp;
        let Some(wanted) = context.request.params.get("notifications") else {
            return Err(Reject::invalid_params("`notifications` is missing"));
        };
        let mut filter: Self = serde_json::from_str(wanted.get()).map_err(|error| {
            let problem = crate::wire::strict_json::problem(&error);
            Reject::invalid_params(format!("`notifications` must be an object: {problem}"))
        })?;
        if mcp.tasks.is_none() {
            filter.task_ids.clear();
        }
        if !filter.task_ids.is_empty() && !context.terms.capabilities.has(Capability::Tasks) {
            return Err(Reject::lacks(Capability::Tasks));
        }
        filter.prompts_list_changed &= mcp.services.prompts.is_some();
        filter.resources_list_changed &= mcp.services.resources.is_some();
        if !mcp.can_subscribe() {
            filter.resource_subscriptions.clear();
        }
        let named = filter.resource_subscriptions.iter().chain(&filter.task_ids);
        if named.map(String::len).sum::<usize>() > MAX_SUBSCRIPTIONS {
            let problem = format!("no more than {MAX_SUBSCRIPTIONS} bytes of addresses and ids");
            return Err(Reject::invalid_params(problem));
        }
        Ok(filter)
    }
}

/// What a listener reacts to.
enum Wakeup {
    /// The client cancelled its request, or its session ended.
    Cancelled,
    Closing,
    Tools,
    /// A change; `None` if some were missed.
    Change(Option<Change>),
    /// A task changed; `None` if some were missed.
    Task(Option<Arc<Task>>),
    Tick,
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("filter", &self.filter).finish_non_exhaustive()
    }
}

impl Listener {
    /// Opens a legacy client's own stream.
    pub fn legacy(mcp: &Arc<Mcp>, caller: &Caller, identify: Arc<dyn Identify>) -> Self {
        let filter = Filter {
            tools_list_changed: true,
            prompts_list_changed: mcp.services.prompts.is_some(),
            resources_list_changed: mcp.services.resources.is_some(),
            ..Filter::default()
        };
        Self::new(mcp, caller, identify, filter)
    }

    /// Has the subscriptions of a connection count.
    #[must_use]
    pub fn over(mut self, connection: &Arc<Connection>) -> Self {
        self.connection = Some(Arc::clone(connection));
        self
    }

    /// Ends the stream with its session, of which only the newest stream is sent notifications.
    pub(crate) fn belongs_to(&mut self, session: Session, cancellation: Option<Cancellation>) {
        self.session = Some(session);
        self.cancellation = cancellation;
    }

    /// `subscriptions/listen`
    pub(crate) fn modern(context: &RequestContext<'_>) -> Result<Self, Reject> {
        let RequestContext { mcp, inbound, request, terms } = *context;
        let filter = Filter::of(context)?;
        let mut listener = Self::new(mcp, inbound.caller, (inbound.identify)(), filter);
        listener.subscription = Some(request.id.to_owned());
        let accepted = json!({"notifications": listener.filter});
        listener.push("notifications/subscriptions/acknowledged", accepted);
        // A client may repeat a name, or write an empty one, any number of times.
        let Filter { resource_subscriptions, task_ids, .. } = &mut listener.filter;
        *resource_subscriptions = Vec::new();
        task_ids.sort();
        task_ids.dedup();
        task_ids.shrink_to_fit();
        let key = Key::Request(request.id.get().to_owned());
        listener.cancellation = terms.scope.map(|it| mcp.cancellations.register(it, key));
        Ok(listener)
    }

    fn new(mcp: &Arc<Mcp>, caller: &Caller, identify: Arc<dyn Identify>, filter: Filter) -> Self {
        // In this order, so that no change is between the two.
        let tools = mcp.gateway.changes();
        let content = mcp.gateway.content_for(caller);
        Self {
            mcp: Arc::clone(mcp),
            identify,
            subscription: None,
            resources: Arc::new(filter.resource_subscriptions.iter().cloned().collect()),
            connection: None,
            session: None,
            waiting: VecDeque::new(),
            content,
            tools,
            changes: mcp.events.changes.subscribe(),
            tasks: (!filter.task_ids.is_empty()).then(|| mcp.events.tasks.subscribe()),
            closing: mcp.closing(),
            cancellation: None,
            alive: every(KEEP_ALIVE, Instant::now()),
            is_over: false,
            filter,
        }
    }

    /// Returns the error for a stream that is not opened, with the id of the request in the modern era.
    pub fn refused(&self, reject: Reject) -> Reject {
        reject.of_optional(self.subscription.as_deref())
    }

    /// Returns the next event; `None` at the end.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Some(Event::Message(message));
            }
            if self.is_over {
                return None;
            }
            let wakeup = self.wakeup().await;
            // What does not concern this client costs nothing more.
            if !self.concerns(&wakeup) {
                continue;
            }
            let caller = match wakeup {
                Wakeup::Cancelled => {
                    self.is_over = true;
                    return None;
                }
                Wakeup::Closing => None,
                _ => self.identify.identify().await.ok().filter(|_| !self.has_ended()),
            };
            let Some(caller) = caller else {
                self.end();
                continue;
            };
            let caller = self.mcp.gateway.prepare_at_once(caller).await;
            let content = self.mcp.gateway.content_for(&caller);
            let is_new = std::mem::replace(&mut self.content, content) != content;
            if self.is_newest() {
                if is_new && self.filter.tools_list_changed {
                    self.push("notifications/tools/list_changed", json!({}));
                }
                match &wakeup {
                    Wakeup::Change(change) => self.push_change(change.as_ref(), &caller),
                    Wakeup::Task(Some(task)) => self.push_task(task, &caller),
                    Wakeup::Task(None) => self.push_tasks(&caller).await,
                    _ => {}
                }
            }
            if matches!(wakeup, Wakeup::Tick) && self.waiting.is_empty() {
                return Some(Event::KeepAlive);
            }
        }
    }

    async fn wakeup(&mut self) -> Wakeup {
        tokio::select! {
            biased;
            () = Cancellation::of(&mut self.cancellation) => Wakeup::Cancelled,
            _ = self.closing.wait_for(|is_closing| *is_closing) => Wakeup::Closing,
            changed = self.tools.changed() => match changed {
                Ok(()) => Wakeup::Tools,
                Err(_) => Wakeup::Closing,
            },
            change = self.changes.recv() => match change {
                Ok(change) => Wakeup::Change(Some(change)),
                Err(RecvError::Lagged(_)) => Wakeup::Change(None),
                Err(RecvError::Closed) => Wakeup::Closing,
            },
            task = next_task(&mut self.tasks) => Wakeup::Task(task),
            _ = self.alive.tick() => Wakeup::Tick,
        }
    }

    fn concerns(&self, wakeup: &Wakeup) -> bool {
        match wakeup {
            Wakeup::Change(Some(Change::Prompts)) => self.filter.prompts_list_changed,
            Wakeup::Change(Some(Change::Resources)) => self.filter.resources_list_changed,
            Wakeup::Change(Some(Change::Resource(uri))) => self.subscriptions().contains(&**uri),
            Wakeup::Task(Some(task)) => self.filter.task_ids.binary_search(&task.id).is_ok(),
            _ => true,
        }
    }

    fn has_ended(&self) -> bool {
        self.session.is_some_and(|session| self.mcp.sessions.state(&session).ended)
    }

    /// Returns `true` unless the session has a newer stream, which is sent the notifications.
    fn is_newest(&self) -> bool {
        self.session.is_none() || self.cancellation.as_ref().is_some_and(Cancellation::is_newest)
    }

    /// Returns the addresses of resources that the client wants to be told about, as of now.
    fn subscriptions(&self) -> Arc<BTreeSet<String>> {
        match (&self.connection, &self.session) {
            (Some(connection), _) => connection.agreed().state.subscriptions,
            (None, Some(session)) => self.mcp.sessions.state(session).subscriptions,
            (None, None) => Arc::clone(&self.resources),
        }
    }

    /// Reports a change, or everything if changes were missed.
    fn push_change(&mut self, change: Option<&Change>, caller: &Caller) {
        let is = |kind: &Change| change.is_none_or(|change| change == kind);
        if self.filter.prompts_list_changed && is(&Change::Prompts) {
            self.push("notifications/prompts/list_changed", json!({}));
        }
        if self.filter.resources_list_changed && is(&Change::Resources) {
            self.push("notifications/resources/list_changed", json!({}));
        }
        let updated = match change {
            Some(Change::Resource(uri)) => Arc::new(BTreeSet::from([uri.to_string()])),
            Some(_) => return,
            None => self.subscriptions(),
        };
        let resources = self.mcp.services.resources.clone();
        let may_hear = |uri: &&String| resources.as_ref().is_none_or(|it| it.may_hear(caller, uri));
        for uri in updated.iter().filter(may_hear) {
            self.push("notifications/resources/updated", json!({"uri": uri}));
        }
    }

    /// Reports a task to its user, as `tasks/get` would.
    fn push_task(&mut self, task: &Task, caller: &Caller) {
        if task.user == user_of(caller) {
            let params = MetaLast { members: task.members(true), meta: self.meta() };
            let message = OutMessage::notification("notifications/tasks", &params);
            self.waiting.push_back(message);
        }
    }

    /// Reports all tasks, since changes were missed.
    async fn push_tasks(&mut self, caller: &Caller) {
        let mcp = Arc::clone(&self.mcp);
        for id in self.filter.task_ids.clone() {
            let Some(tasks) = &mcp.tasks else { break };
            if let Ok(Some(task)) = tasks.find(&id, user_of(caller)).await {
                self.push_task(&task, caller);
            }
        }
    }

    /// In the modern era, announces the end and then gives the request its result.
    fn end(&mut self) {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Cancelled<'a> {
            request_id: &'a RawValue,
            reason: &'static str,
        }
        #[derive(Serialize)]
        struct EndMeta<'a> {
            #[serde(flatten)]
            meta: Meta<'a>,
            #[serde(rename = "io.modelcontextprotocol/serverInfo")]
            server: ServerInfo<'a>,
        }
        self.is_over = true;
        let (Some(id), Some(meta)) = (self.subscription.as_deref(), self.meta()) else { return };
        let reason = "the server stops, or the credential is no longer good or cannot be checked";
        let members = Cancelled { request_id: id, reason };
        let params = MetaLast { members, meta: self.meta() };
        let cancelled = OutMessage::notification("notifications/cancelled", &params);
        let settings = self.mcp.gateway.settings();
        let mut result = ResultWriter::new(id, Revision::NEWEST, 100);
        result.value("_meta", &EndMeta { meta, server: ServerInfo::of(&settings) });
        self.waiting.extend([cancelled, result.end()]);
    }

    fn push(&mut self, method: &str, members: Value) {
        let params = MetaFirst { meta: self.meta(), members };
        let message = OutMessage::notification(method, &params);
        self.waiting.push_back(message);
    }

    fn meta(&self) -> Option<Meta<'_>> {
        self.subscription.as_deref().map(|subscription| Meta { subscription })
    }
}

#[derive(Serialize)]
struct Meta<'a> {
    #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
    subscription: &'a RawValue,
}

#[derive(Serialize)]
struct MetaFirst<'a> {
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Meta<'a>>,
    #[serde(flatten)]
    members: Value,
}

#[derive(Serialize)]
struct MetaLast<'a, T> {
    #[serde(flatten)]
    members: T,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Meta<'a>>,
}

async fn next_task(tasks: &mut Option<broadcast::Receiver<Arc<Task>>>) -> Option<Arc<Task>> {
    match tasks {
        // Is not closed: the listener has the sender.
        Some(tasks) => tasks.recv().await.ok(),
        None => std::future::pending().await,
    }
}
