//! Calls of tools: limits, arguments, the upstream, the time limit.

use std::borrow::Cow;
use std::pin::pin;
use std::time::Duration;

use serde_json::value::{RawValue, to_raw_value};
use tokio::time::{Instant, sleep};

use super::{BlockingChecks, CheckError, FoundTool, Gateway, ToolRef};
use crate::access::Caller;
use crate::catalog::Entry;
use crate::model::arguments::{ParamFormat, ParamStyle};
use crate::upstream::client::Client;
use crate::upstream::local::TOOL_ERROR;
use crate::upstream::memory_budget::{BudgetExceeded, BudgetReservation};
use crate::upstream::timer::until;
use crate::upstream::{BoxFuture, Call, CallError, CallFailure, CallOutput, Upstream};
use crate::wire::jsonrpc::RpcError;

/// Maximum time for which a call can wait for answers of its client without using up the time limit of the call.
const MAX_WAIT: Duration = Duration::from_mins(10);

/// Interval between checks whether the method is still waiting for the client.
const CLIENT_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Error of a request in a batch whose replies are already too large.
pub(crate) const BATCH_FULL: &str = "Nothing was run: the replies to the earlier requests of this batch are too large. \
    Send this request again, alone or in a smaller batch.";

/// A request to call a method.
///
/// ```
/// use callgate::gateway::CallRequest;
/// use callgate::{Callgate, Caller, method, methods};
/// use serde_json::value::RawValue;
///
/// /// Greets somebody.
/// #[method(read_only)]
/// fn greet(name: String) -> String {
///     format!("Hello, {name}!")
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Callgate::builder().methods(methods![greet]).build()?;
/// let arguments = RawValue::from_string(r#"{"name": "Ada"}"#.to_owned())?;
/// let request = CallRequest { id: "greet", arguments: Some(&arguments), read_only: true };
/// let result = server.gateway().call(&Caller::anonymous(), request).await?;
/// assert_eq!(result.value.get(), r#""Hello, Ada!""#);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct CallRequest<'a> {
    /// Id of the method.
    pub id: &'a str,
    /// An object, or an array in the order of the signature. `None` means an empty object.
    pub arguments: Option<&'a RawValue>,
    /// Whether only read-only methods are allowed.
    pub read_only: bool,
}

/// Result of a call, with the memory reserved for it until the reply is sent.
///
/// Returned by [`Gateway::call`]. [`CallRequest`] has an example.
#[derive(Debug)]
pub struct CallResult<T = CallOutput> {
    /// The result.
    pub value: T,
    pub(crate) reservation: BudgetReservation,
}

impl Gateway {
    /// Calls a method by its id and returns the result as JSON.
    pub async fn call(
        &self,
        caller: &Caller,
        request: CallRequest<'_>,
    ) -> Result<CallResult<Box<RawValue>>, CallError> {
        let caller = &*self.prepared(caller).await;
        let tool = self.find(caller, ToolRef::Id(request.id), request.read_only)?;
        let outcome = self.invoke(&tool, caller, request.arguments, &Client::default()).await?;
        let value = match outcome.value {
            CallOutput::Json(json) => json,
            CallOutput::Content(content) if content.is_error => {
                return Err(RpcError::new(TOOL_ERROR, content.joined_text()).into());
            }
            CallOutput::Content(content) => to_raw_value(&content).unwrap_or_default(),
        };
        Ok(CallResult { value, reservation: outcome.reservation })
    }

    /// Calls a tool: checks the arguments and calls the upstream within the time limit. Logs failures under the id of
    /// the call.
    pub(crate) async fn invoke(
        &self,
        tool: &FoundTool,
        caller: &Caller,
        arguments: Option<&RawValue>,
        client: &Client,
    ) -> Result<CallResult, CallError> {
        let entry = &*tool.entry;
        let method = entry.id().as_str();
        let admitted = self.admit(tool, caller, method, arguments)?;
        let mut id = None;
        let outcome = async {
            if caller.is_batch_full() {
                return Err(batch_full());
            }
            let params = self.params(tool, arguments, caller).await?;
            let upstream = tool.upstream.as_ref().ok_or_else(|| not_configured(entry))?;
            let limit = TimeLimit {
                general: upstream.time_limit().is_none().then_some(self.call_timeout),
                per_tool: admitted.bounds.time,
            };
            let mut reservation = BudgetReservation::new(&self.budget, caller)
                .for_result_up_to(admitted.bounds.result_bytes);
            let value = if let Some(result) = upstream.call_now(method, &params) {
                result?
            } else {
                let call = Call {
                    id: id.insert(self.call_ids.next()),
                    method,
                    remote_name: entry.remote_name(),
                    params: &params,
                    safety: entry.call_safety(),
                    caller,
                    client,
                    reservation: &reservation,
                };
                with_time_limit(limit, client, upstream.call(call)).await?
            };
            reservation.reserve_result(value.len())?;
            Ok(CallResult { value, reservation })
        };
        match outcome.await {
            Ok(outcome) => Ok(outcome),
            Err(error) => {
                Box::pin(tool.snapshot.visibility.record_denial(caller, entry, &error)).await;
                Err(error.logged(caller, method, id.unwrap_or_else(|| self.call_ids.next())))
            }
        }
    }

    /// Checks the arguments of a method without running it.
    pub fn check_arguments(
        &self,
        caller: &Caller,
        id: &str,
        arguments: Option<&RawValue>,
    ) -> Result<(), CallError> {
        let tool = self.find(caller, ToolRef::Id(id), false)?;
        let schema = || tool.catalog().check_schema(&tool.entry);
        let input = self.inputs.get(&tool.entry.input, schema).map_err(CallError::failed)?;
        Ok(input.params(arguments, param_format(&tool)).map(drop)?)
    }

    /// Checks the arguments and converts them to the upstream's parameters.
    async fn params<'a>(
        &self,
        tool: &FoundTool,
        arguments: Option<&'a RawValue>,
        caller: &Caller,
    ) -> Result<Cow<'a, RawValue>, CallError> {
        let (entry, format) = (&tool.entry, param_format(tool));
        let schema = || tool.catalog().check_schema(entry);
        let bytes = arguments.map_or(0, |arguments| arguments.get().len());
        if BlockingChecks::is_inline(caller, bytes, entry.check_schema_len()) {
            let input = self.inputs.get(&entry.input, schema).map_err(CallError::failed)?;
            return Ok(input.params(arguments, format)?);
        }
        let schema = schema();
        let (inputs, arguments) = (self.inputs.clone(), arguments.map(ToOwned::to_owned));
        let check = move || {
            let input = inputs.compiled(&schema).map_err(CallError::failed)?;
            let params = input.params(arguments.as_deref(), format)?.into_owned();
            Ok::<_, CallError>(Cow::Owned(params))
        };
        Box::pin(self.checks.run(caller, check)).await?
    }
}

fn param_format(tool: &FoundTool) -> ParamFormat {
    let upstream = tool.upstream.as_deref();
    let configured = upstream.and_then(Upstream::param_style);
    let style = ParamStyle::resolve(tool.entry.param_style, configured);
    ParamFormat { style, null_is_absent: upstream.is_some_and(Upstream::null_is_absent) }
}

fn not_configured(entry: &Entry) -> CallError {
    let message = "The service behind this tool is not configured. Nothing was run; an administrator has to \
         configure it.";
    let detail = format!("upstream `{}` is not configured", entry.upstream());
    CallError::Failed(CallFailure::new(message, detail))
}

fn batch_full() -> CallError {
    CallError::Failed(CallFailure::new(BATCH_FULL, "the replies to the batch are too large"))
}

/// Converts the error of a check of arguments.
impl From<CheckError> for CallError {
    fn from(error: CheckError) -> Self {
        match error {
            CheckError::Busy => {
                let message = "Too many of your calls with large arguments are waiting. Nothing was run; \
                               send fewer calls at the same time.";
                Self::Busy(message.into())
            }
            CheckError::Failed(_) => Self::failed(error),
        }
    }
}

impl From<BudgetExceeded> for CallError {
    fn from(exceeded: BudgetExceeded) -> Self {
        let message = match exceeded {
            BudgetExceeded::Tool(limit) => {
                let message = format!(
                    "The method ran, but its result is larger than {limit} bytes, which is the limit of this \
                     tool. Request less data."
                );
                return Self::Failed(CallFailure::new(message, exceeded));
            }
            BudgetExceeded::Total(_) => {
                "The method ran, but no memory is left for its result. \
                 Request less data, or retry later if the tool is read-only."
            }
            BudgetExceeded::Batch => {
                "The method ran, but the replies to this batch are too large. \
                 Request less data, or send fewer requests in a batch."
            }
        };
        Self::Failed(CallFailure::new(message, exceeded))
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeLimit {
    /// Time limit of all calls, unless the upstream enforces its own time limit. Does not apply to tasks.
    general: Option<Duration>,
    /// Time limit that is configured for the tool. Also applies to tasks.
    per_tool: Option<Duration>,
}

impl From<Duration> for TimeLimit {
    fn from(general: Duration) -> Self {
        Self { general: Some(general), per_tool: None }
    }
}

impl TimeLimit {
    /// Returns the lower of the limits that apply, or `None` if no limit applies.
    fn applicable(self, is_task: bool) -> Option<Duration> {
        [self.per_tool, self.general.filter(|_| !is_task)].into_iter().flatten().min()
    }

    fn error(self, limit: Duration, elapsed: Duration) -> CallError {
        let detail = format!("no answer within {elapsed:?}");
        if self.per_tool != Some(limit) {
            return CallError::failed(detail);
        }
        let message = format!(
            "The call was stopped after {limit:?}, which is the time limit of this tool. It may have run in part: \
             check before you try again."
        );
        CallError::Failed(CallFailure::new(message, detail))
    }
}

/// Runs a call with a time limit. The time in which the method waits for the client does not count, up to [`MAX_WAIT`].
pub(crate) async fn with_time_limit<T>(
    limit: impl Into<TimeLimit>,
    client: &Client,
    mut running: BoxFuture<'_, Result<T, CallError>>,
) -> Result<T, CallError> {
    let (limits, started) = (limit.into(), Instant::now());
    loop {
        let Some(limit) = limits.applicable(client.is_task()) else { return running.await };
        let (waited, is_waiting) = client.waited();
        let deadline = started + limit + waited.min(MAX_WAIT);
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return Err(limits.error(limit, started.elapsed()));
        }
        // The deadline moves while the method waits for the client.
        let remaining = if is_waiting { remaining.max(CLIENT_CHECK_INTERVAL) } else { remaining };
        if let Some(result) = until(pin!(sleep(remaining)), running.as_mut()).await {
            return result;
        }
    }
}
