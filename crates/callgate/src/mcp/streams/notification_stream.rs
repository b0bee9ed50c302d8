//! Notification streams: `subscriptions/listen` in the modern era, the GET stream in the legacy era.
//!
//! A stream notifies its client when the caller's tools change, and ends if the credential becomes invalid.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::broadcast;
use tokio::sync::watch;
use tokio::time::{Instant, Interval};

use super::event::{Change, Event, Identify, KEEP_ALIVE};
use super::guard::{StreamEnd, StreamGuard};
use crate::access::Caller;
use crate::mcp::calls::running_call::interval_from;
use crate::mcp::features::tasks::Tasks;
use crate::mcp::sessions::state::MAX_SUBSCRIPTIONS;
use crate::mcp::{
    Cancellation, Connection, EncodedMessage, InFlightKey, Mcp, McpError, RequestContext,
    ResultWriter, ServerInfo, Session, Task, some_or_pending,
};
use crate::upstream::Capability;
use crate::wire::{Revision, strict_json};

/// A stream of notifications to one client.
pub struct NotificationStream {
    mcp: Arc<Mcp>,
    guard: StreamGuard,
    /// Id of the `subscriptions/listen` request; `None` in the legacy era.
    subscription: Option<Box<RawValue>>,
    filter: Filter,
    source: SubscriptionSource,
    /// Messages that are sent before any other message.
    queued: VecDeque<EncodedMessage>,
    /// Digest of the caller's tools at the last notification.
    tools_hash: u64,
    tools: watch::Receiver<u64>,
    changes: broadcast::Receiver<Change>,
    tasks: Option<broadcast::Receiver<Arc<Task>>>,
    keep_alive: Interval,
    has_ended: bool,
}

/// Holds the URIs of the resources that the client subscribed to.
enum SubscriptionSource {
    /// The resources are listed in the `subscriptions/listen` request.
    Request(Arc<BTreeSet<String>>),
    Connection(Arc<Connection>),
    Session(Session),
}

/// The notifications that a modern client requests, and those that the server acknowledges.
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
    /// Reads the requested notifications and removes those that the server does not offer.
    fn of(context: &RequestContext<'_>) -> Result<Self, McpError> {
        let mcp = context.mcp;
        let Some(requested) = context.request.params.get("notifications") else {
            return Err(McpError::invalid_params("`notifications` is missing"));
        };
        let mut filter: Self = strict_json::deserialize_short(requested).map_err(|error| {
            let problem = strict_json::problem(&error);
            McpError::invalid_params(format!("`notifications` is not valid: {problem}"))
        })?;
        if mcp.tasks.is_none() {
            filter.task_ids.clear();
        }
        if !filter.task_ids.is_empty() && !context.negotiated.capabilities.has(Capability::Tasks) {
            return Err(McpError::missing_capability(Capability::Tasks));
        }
        filter.prompts_list_changed &= mcp.services.prompts.is_some();
        filter.resources_list_changed &= mcp.services.resources.is_some();
        if !mcp.can_subscribe() {
            filter.resource_subscriptions.clear();
        }
        let identifiers = filter.resource_subscriptions.iter().chain(&filter.task_ids);
        if identifiers.map(String::len).sum::<usize>() > MAX_SUBSCRIPTIONS {
            let problem =
                format!("the resource URIs and task ids exceed {MAX_SUBSCRIPTIONS} bytes");
            return Err(McpError::invalid_params(problem));
        }
        Ok(filter)
    }
}

/// Event that makes the stream check whether the client must be notified.
enum Wakeup {
    Ended(StreamEnd),
    Tools,
    /// A change, or `None` if changes were missed.
    Change(Option<Change>),
    /// A changed task, or `None` if changes of tasks were missed.
    Task(Option<Arc<Task>>),
    /// The credential expires.
    Expired,
    Tick,
}

impl std::fmt::Debug for NotificationStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NotificationStream").field("filter", &self.filter).finish_non_exhaustive()
    }
}

impl NotificationStream {
    /// Opens the stream of a legacy client.
    pub fn legacy(mcp: &Arc<Mcp>, caller: &Caller, identify: Arc<dyn Identify>) -> Self {
        let filter = Filter {
            tools_list_changed: true,
            prompts_list_changed: mcp.services.prompts.is_some(),
            resources_list_changed: mcp.services.resources.is_some(),
            ..Filter::default()
        };
        Self::new(mcp, caller, identify, filter)
    }

    /// Uses the subscriptions of a connection instead of those of a session.
    #[must_use]
    pub fn over(mut self, connection: &Arc<Connection>) -> Self {
        self.source = SubscriptionSource::Connection(Arc::clone(connection));
        self
    }

    /// Uses the subscriptions of a session, and ends with the session. If a session has several streams, only the
    /// newest one sends notifications.
    pub(crate) fn bind_to_session(&mut self, session: Session, cancellation: Option<Cancellation>) {
        self.source = SubscriptionSource::Session(session);
        self.guard.cancellation = cancellation;
    }

    /// `subscriptions/listen`
    pub(crate) fn modern(context: &RequestContext<'_>) -> Result<Self, McpError> {
        let RequestContext { mcp, inbound, request, negotiated } = *context;
        let filter = Filter::of(context)?;
        let mut stream = Self::new(mcp, inbound.caller, (inbound.identify)(), filter);
        stream.subscription = Some(request.id.to_owned());
        let accepted = json!({"notifications": stream.filter});
        stream.push("notifications/subscriptions/acknowledged", accepted);
        // Releases the memory of duplicate ids, because a client may send any number of them.
        let Filter { resource_subscriptions, task_ids, .. } = &mut stream.filter;
        *resource_subscriptions = Vec::new();
        task_ids.sort();
        task_ids.dedup();
        task_ids.shrink_to_fit();
        let key = InFlightKey::Request(request.id.get().to_owned());
        stream.guard.cancellation = negotiated.scope.map(|it| mcp.cancellations.register(it, key));
        Ok(stream)
    }

    fn new(mcp: &Arc<Mcp>, caller: &Caller, identify: Arc<dyn Identify>, filter: Filter) -> Self {
        // Subscribes to changes before reading the tools, so that no change is missed.
        let tools = mcp.gateway.changes();
        let tools_hash = mcp.gateway.tools_hash(caller);
        let tasks = mcp.tasks.as_ref().filter(|_| !filter.task_ids.is_empty());
        Self {
            mcp: Arc::clone(mcp),
            guard: StreamGuard::new(mcp, caller, identify, None),
            subscription: None,
            source: SubscriptionSource::Request(Arc::new(
                filter.resource_subscriptions.iter().cloned().collect(),
            )),
            queued: VecDeque::new(),
            tools_hash,
            tools,
            changes: mcp.changes.subscribe(),
            tasks: tasks.map(Tasks::changes),
            keep_alive: interval_from(KEEP_ALIVE, Instant::now()),
            has_ended: false,
            filter,
        }
    }

    /// Adds the id of the `subscriptions/listen` request to an error.
    pub fn error(&self, error: McpError) -> McpError {
        error.with_optional_id(self.subscription.as_deref())
    }

    /// Returns the next event, or `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(message) = self.queued.pop_front() {
                return Some(Event::Message(message));
            }
            if self.has_ended {
                return None;
            }
            let wakeup = self.wakeup().await;
            if !self.is_relevant(&wakeup) {
                continue;
            }
            let caller = match wakeup {
                Wakeup::Ended(StreamEnd::Cancelled) => {
                    self.has_ended = true;
                    return None;
                }
                Wakeup::Ended(StreamEnd::Shutdown) => None,
                _ => self.guard.caller().await.filter(|_| !self.session_has_ended()),
            };
            let Some(caller) = caller else {
                self.end();
                continue;
            };
            let caller = self.mcp.gateway.prepare_at_once(caller).await;
            let tools_hash = self.mcp.gateway.tools_hash(&caller);
            let has_changed = std::mem::replace(&mut self.tools_hash, tools_hash) != tools_hash;
            if self.is_newest() {
                if has_changed && self.filter.tools_list_changed {
                    self.push("notifications/tools/list_changed", json!({}));
                }
                match &wakeup {
                    Wakeup::Change(change) => self.push_change(change.as_ref(), &caller),
                    Wakeup::Task(Some(task)) => self.push_task(task, &caller),
                    Wakeup::Task(None) => self.push_tasks(&caller).await,
                    _ => {}
                }
            }
            if matches!(wakeup, Wakeup::Tick) && self.queued.is_empty() {
                return Some(Event::KeepAlive);
            }
        }
    }

    async fn wakeup(&mut self) -> Wakeup {
        let expired = self.guard.expired();
        let task = self.tasks.as_mut().map(broadcast::Receiver::recv);
        tokio::select! {
            biased;
            end = self.guard.ended() => Wakeup::Ended(end),
            // The senders are never closed, because `self.mcp` owns them.
            _ = self.tools.changed() => Wakeup::Tools,
            change = self.changes.recv() => Wakeup::Change(change.ok()),
            task = some_or_pending(task) => Wakeup::Task(task.ok()),
            () = expired => Wakeup::Expired,
            _ = self.keep_alive.tick() => Wakeup::Tick,
        }
    }

    fn is_relevant(&self, wakeup: &Wakeup) -> bool {
        match wakeup {
            Wakeup::Change(Some(Change::Prompts)) => self.filter.prompts_list_changed,
            Wakeup::Change(Some(Change::Resources)) => self.filter.resources_list_changed,
            Wakeup::Change(Some(Change::Resource(uri))) => self.subscriptions().contains(&**uri),
            Wakeup::Task(Some(task)) => self.filter.task_ids.binary_search(&task.id).is_ok(),
            _ => true,
        }
    }

    fn session_has_ended(&self) -> bool {
        matches!(&self.source, SubscriptionSource::Session(it) if self.mcp.sessions.state(it).ended)
    }

    /// Returns `false` if the session has a newer stream. That stream then sends the notifications.
    fn is_newest(&self) -> bool {
        !matches!(self.source, SubscriptionSource::Session(_))
            || self.guard.cancellation.as_ref().is_some_and(Cancellation::is_newest)
    }

    /// Returns the URIs of the resources that the client subscribed to.
    fn subscriptions(&self) -> Arc<BTreeSet<String>> {
        match &self.source {
            SubscriptionSource::Request(uris) => Arc::clone(uris),
            SubscriptionSource::Connection(connection) => connection.state().session.subscriptions,
            SubscriptionSource::Session(session) => self.mcp.sessions.state(session).subscriptions,
        }
    }

    /// Notifies the client of a change, or of all lists and resources if changes were missed.
    fn push_change(&mut self, change: Option<&Change>, caller: &Caller) {
        let is_reported = |kind: &Change| change.is_none_or(|change| change == kind);
        if self.filter.prompts_list_changed && is_reported(&Change::Prompts) {
            self.push("notifications/prompts/list_changed", json!({}));
        }
        if self.filter.resources_list_changed && is_reported(&Change::Resources) {
            self.push("notifications/resources/list_changed", json!({}));
        }
        let updated = match change {
            Some(Change::Resource(uri)) => Arc::new(BTreeSet::from([uri.to_string()])),
            Some(_) => return,
            None => self.subscriptions(),
        };
        let resources = self.mcp.services.resources.clone();
        let can_read =
            |uri: &&String| resources.as_ref().is_some_and(|it| it.can_read(caller, uri));
        for uri in updated.iter().filter(can_read) {
            self.push("notifications/resources/updated", json!({"uri": uri}));
        }
    }

    /// Notifies the client of a changed task if the task belongs to the caller. The notification has the members that
    /// `tasks/get` returns.
    fn push_task(&mut self, task: &Task, caller: &Caller) {
        if task.user == caller.user_id() {
            self.push("notifications/tasks", task.detailed());
        }
    }

    /// Notifies the client of all tasks that it subscribed to. Used if changes were missed.
    async fn push_tasks(&mut self, caller: &Caller) {
        let mcp = Arc::clone(&self.mcp);
        for id in self.filter.task_ids.clone() {
            let Some(tasks) = &mcp.tasks else { break };
            if let Ok(Some(task)) = tasks.find(&id, caller.user_id()).await {
                self.push_task(&task, caller);
            }
        }
    }

    /// Ends the stream. In the modern era, sends `notifications/cancelled` and the result of the `subscriptions/listen`
    /// request.
    fn end(&mut self) {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Cancelled<'a> {
            request_id: &'a RawValue,
            reason: &'static str,
        }
        self.has_ended = true;
        let Some(id) = self.subscription.as_deref() else { return };
        let reason =
            "the server is shutting down, or the credential is invalid or cannot be verified";
        let cancelled = Cancelled { request_id: id, reason };
        let cancelled = self.notification("notifications/cancelled", cancelled);
        let settings = self.mcp.gateway.settings();
        let mut result = ResultWriter::new(id, Revision::NEWEST, 100);
        let server = Some(ServerInfo::of(&settings));
        result.value("_meta", &SubscriptionMeta { subscription: id, server });
        self.queued.extend([cancelled, result.end()]);
    }

    fn push(&mut self, method: &str, members: impl Serialize) {
        let message = self.notification(method, members);
        self.queued.push_back(message);
    }

    fn notification(&self, method: &str, members: impl Serialize) -> EncodedMessage {
        let subscription = self.subscription.as_deref();
        let meta = subscription.map(|subscription| SubscriptionMeta { subscription, server: None });
        EncodedMessage::notification(method, &NotificationParams { meta, members })
    }
}

#[derive(Serialize)]
struct SubscriptionMeta<'a> {
    #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
    subscription: &'a RawValue,
    #[serde(
        rename = "io.modelcontextprotocol/serverInfo",
        skip_serializing_if = "Option::is_none"
    )]
    server: Option<ServerInfo<'a>>,
}

/// Parameters of a notification.
#[derive(Serialize)]
struct NotificationParams<'a, T> {
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<SubscriptionMeta<'a>>,
    #[serde(flatten)]
    members: T,
}
