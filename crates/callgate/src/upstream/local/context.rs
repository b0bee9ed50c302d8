//! Context of a call.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(feature = "macros")]
use base64::Engine as _;
#[cfg(feature = "macros")]
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
#[cfg(feature = "macros")]
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;

use crate::access::Caller;
use crate::upstream::client::{Capability, Client};
use crate::upstream::local::Error;
use crate::upstream::local::ask::Question;
#[cfg(feature = "macros")]
use crate::upstream::local::ask::{Action, Elicit};
use crate::wire::log_level::LogLevel;

/// Context of a call: the caller, and the client, which can be notified and asked.
///
/// ```
/// use callgate::{Context, method};
///
/// /// Returns the name of the caller.
/// #[method(read_only)]
/// async fn whoami(ctx: &Context) -> String {
///     ctx.progress(0.5, Some(1.0), Some("looking up"));
///     ctx.caller.name().to_owned()
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Context {
    /// The caller.
    pub caller: Caller,
    /// Id of the call. The log uses the same id.
    pub call_id: String,
    /// The client of the call.
    pub client: Client,
    lifetime: Arc<Lifetime>,
}

#[derive(Debug, Default)]
struct Lifetime {
    is_over: AtomicBool,
    ended: Notify,
}

/// Ends the call on drop.
#[derive(Debug)]
pub(crate) struct CallGuard(Arc<Lifetime>);

impl Drop for CallGuard {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
        self.0.ended.notify_waiters();
    }
}

impl Context {
    pub(crate) fn new(caller: Caller, call_id: String, client: Client) -> (Self, CallGuard) {
        let lifetime = Arc::<Lifetime>::default();
        let guard = CallGuard(Arc::clone(&lifetime));
        (Self { caller, call_id, client, lifetime }, guard)
    }

    /// Sends a progress notification, see [`Client::progress`].
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        self.client.progress(progress, total, message);
    }

    /// Sends a log message, see [`Client::log`].
    pub fn log(&self, level: LogLevel, logger: &str, data: impl Serialize) {
        self.client.log(level, logger, data);
    }

    /// Returns `true` if the client supports the capability.
    pub fn supports(&self, capability: Capability) -> bool {
        self.client.supports(capability)
    }

    /// Asks the client a question. `key` identifies the question within the method.
    ///
    /// In the modern era, a call that is not a task ends at an unanswered question. The client repeats the call
    /// with the answer, and the method **runs again from its beginning**. It must therefore have no side effects
    /// before the question. See [`Client::ask`].
    pub async fn ask<Q: Question>(&self, key: &str, question: Q) -> Result<Q::Answer, Error> {
        self.client.ask(key, question).await
    }

    /// Asks the user for the fields of `T`, a flat struct. Returns `None` if the user declined or closed the form.
    ///
    /// ```
    /// use callgate::{Context, Error, method};
    /// use schemars::JsonSchema;
    /// use serde::Deserialize;
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Confirm {
    ///     /// Whether to delete the account for good.
    ///     sure: bool,
    /// }
    ///
    /// /// Deletes an account.
    /// #[method(destructive)]
    /// async fn delete(ctx: &Context, id: u32) -> Result<&'static str, Error> {
    ///     match ctx.ask_for::<Confirm>(&format!("Delete account {id}?")).await? {
    ///         Some(Confirm { sure: true }) => Ok("deleted"),
    ///         _ => Ok("kept"),
    ///     }
    /// }
    /// ```
    ///
    /// In the modern era, a call that is not a task asks a question with the same type and message only once. Later
    /// questions get the first answer. As with [`ask`](Self::ask), the method may run again from its beginning.
    ///
    /// # Errors
    ///
    /// Fails if the user cannot be asked, or if `T` is not a struct of strings, numbers, booleans and enums
    /// without data, or `Option`s of them.
    #[cfg(feature = "macros")]
    pub async fn ask_for<T>(&self, message: &str) -> Result<Option<T>, Error>
    where
        T: schemars::JsonSchema + serde::de::DeserializeOwned,
    {
        let question = Elicit::form_for::<T>(message)?;
        // The key contains a hash of the message, because questions of one type differ in their messages, which may be
        // long.
        let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(message));
        let answer = self.ask(&format!("{}-{hash}", T::schema_name()), question).await?;
        if answer.action != Action::Accept {
            return Ok(None);
        }
        let fields = serde_json::Value::Object(answer.content);
        let fields = serde_json::from_value(fields).map_err(|error| {
            Error::tool(format!("the answer to the question cannot be used: {error}"))
        })?;
        Ok(Some(fields))
    }

    /// Continues the call as a task, see [`Client::become_task`].
    pub async fn become_task(&self) -> Result<bool, Error> {
        self.client.become_task().await
    }

    /// Like [`become_task`](Self::become_task), but fails if the client does not support tasks.
    pub async fn require_task(&self) -> Result<(), Error> {
        self.client.require_task().await
    }

    /// Returns `true` if the call has ended: it was answered, was cancelled or timed out.
    ///
    /// A cancelled call is dropped at its next `await`. Threads and tasks that the call started continue to run, and
    /// can use this function to stop.
    pub fn is_finished(&self) -> bool {
        self.lifetime.is_over.load(Ordering::Acquire)
    }

    /// Waits until the call has ended.
    pub async fn finished(&self) {
        let mut ended = pin!(self.lifetime.ended.notified());
        // Registers before the check, so that the notification is not missed.
        ended.as_mut().enable();
        if !self.is_finished() {
            ended.await;
        }
    }
}
