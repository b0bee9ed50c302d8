//! Rust functions as an [`Upstream`].
//!
//! ```
//! use callgate::local::{Error, Local};
//! use callgate::model::{Method, Param};
//! use serde::Deserialize;
//!
//! #[derive(Deserialize)]
//! struct Greet { name: String }
//!
//! let mut local = Local::default();
//! local.method(
//!     Method::new("greet".parse()?).param(Param::new("name", "string".parse()?)),
//!     async |_, arguments: Greet| Ok::<_, Error>(format!("Hello, {}!", arguments.name)),
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod ask;
pub(crate) mod context;
#[cfg(feature = "macros")]
pub(crate) mod definition;
#[cfg(feature = "macros")]
mod into_output;
#[cfg(feature = "macros")]
pub(crate) mod string_args;

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::FutureExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use crate::model::method::{InvalidMethod, LOCAL, Method};
use crate::upstream::content::ToolContent;
use crate::upstream::stats::CallStats;
use crate::upstream::{BoxFuture, Call, CallError, CallOutput, Counters, MAX_INLINE, Upstream};
use crate::wire::jsonrpc::RpcError;
use crate::wire::strict_json;
pub use context::Context;
#[cfg(feature = "macros")]
pub use into_output::IntoOutput;

/// Code of errors created with [`Error::tool`]. It is outside of the ranges that JSON-RPC and MCP reserve.
pub(crate) const TOOL_ERROR: i64 = 1;

/// Outcomes in metrics.
const OUTCOMES: [&str; 4] = ["result", "error", "failed", "cancelled"];
const CANCELLED: usize = 3;

/// Error of a function.
///
/// ```
/// use callgate::{Error, method};
/// use serde_json::json;
///
/// /// Places an order.
/// #[method(destructive)]
/// fn order(quantity: u32) -> Result<u32, Error> {
///     let stock = 3;
///     if quantity > stock {
///         return Err(Error::tool("not enough in stock").with_data(json!({"stock": stock})));
///     }
///     Ok(quantity)
/// }
/// ```
#[derive(Debug)]
pub struct Error(Kind);

#[derive(Debug)]
enum Kind {
    Tool(RpcError),
    Protocol(RpcError),
    Internal(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Creates an error with a message for the caller.
    pub fn tool(message: impl Into<String>) -> Self {
        Self(Kind::Tool(RpcError::new(TOOL_ERROR, message)))
    }

    /// Creates an error with a code and data, which are sent to the caller.
    pub fn rpc(error: RpcError) -> Self {
        Self(Kind::Tool(error))
    }

    /// Adds data for agents and programs. MCP clients get the data as JSON after the message. REST and JSON-RPC clients
    /// get the data as the member `data`. An internal error gets no data.
    #[must_use]
    pub fn with_data(mut self, data: impl Serialize) -> Self {
        match (&mut self.0, serde_json::to_value(data)) {
            (Kind::Tool(error) | Kind::Protocol(error), Ok(data)) => error.data = Some(data),
            (Kind::Internal(_), _) => {}
            (_, Err(error)) => return error.into(),
        }
        self
    }

    /// Creates a protocol error, which MCP clients get instead of a result. Unlike an [`Error::tool`], a protocol error
    /// is often not shown to the agent.
    pub fn protocol(error: RpcError) -> Self {
        Self(Kind::Protocol(error))
    }
}

/// Converts any other error to an internal error, which is logged and not sent to the caller.
impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<E> for Error {
    fn from(error: E) -> Self {
        Self(Kind::Internal(error.into()))
    }
}

impl From<Error> for CallError {
    fn from(Error(kind): Error) -> Self {
        match kind {
            Kind::Tool(error) => Self::Rpc(error),
            Kind::Protocol(error) => Self::Protocol(error),
            Kind::Internal(error) => Self::failed(error),
        }
    }
}

/// A response that a function fills instead of returning a result. Its contents are the result.
///
/// ```
/// use callgate::{Response, method};
///
/// /// Shows the projects.
/// #[method(read_only)]
/// fn projects(response: &mut Response) {
///     response.set("title", "Projects");
/// }
/// ```
#[derive(Debug, Default)]
pub struct Response {
    contents: Map<String, Value>,
}

impl Response {
    /// Sets a member.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.contents.insert(name.into(), value.into());
    }

    /// Returns the members.
    pub fn contents(&self) -> &Map<String, Value> {
        &self.contents
    }
}

type FunctionResult = Result<CallOutput, CallError>;
type LocalStats = CallStats<{ OUTCOMES.len() }>;
type RunNow = dyn Fn(&RawValue) -> FunctionResult + Send + Sync;
type RunAsync =
    dyn for<'a> Fn(Call<'a>, &'a LocalStats) -> BoxFuture<'a, FunctionResult> + Send + Sync;

/// A function that reads its arguments from JSON.
enum Function {
    /// A function that neither waits nor has a context.
    #[cfg_attr(not(feature = "macros"), expect(dead_code, reason = "created only by `#[method]`"))]
    Immediate(Arc<RunNow>),
    Async(Box<RunAsync>),
}

impl Function {
    /// Wraps a function in one boxed future. Converts a panic to a failed call. Large arguments are parsed on a
    /// blocking thread, and the function runs on this thread until it first waits. By then, most functions have
    /// dropped their arguments, which also takes long if the arguments are large.
    fn new_async<F, Fut>(function: F) -> Self
    where
        F: Fn(Context, &RawValue) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = FunctionResult> + Send + 'static,
    {
        fn boxed<F>(run: F) -> Box<RunAsync>
        where
            F: for<'a> Fn(Call<'a>, &'a LocalStats) -> BoxFuture<'a, FunctionResult>,
            F: Send + Sync + 'static,
        {
            Box::new(run)
        }
        let function = Arc::new(function);
        Self::Async(boxed(move |call, stats| {
            let function = Arc::clone(&function);
            Box::pin(async move {
                let mut counted = stats.begin(CANCELLED);
                let (caller, client) = (call.caller.clone(), call.client.clone());
                let (context, _guard) = Context::new(caller, call.id.to_owned(), client);
                let result = catch_panic(async move {
                    if call.params.get().len() <= MAX_INLINE {
                        return function(context, call.params).await;
                    }
                    let (params, span) = (call.params.to_owned(), tracing::Span::current());
                    let started = tokio::task::spawn_blocking(move || {
                        if context.is_finished() {
                            return Ok(Err(CallError::failed("the call was cancelled")));
                        }
                        let mut running = Box::pin(catch_panic(function(context, &params)));
                        span.in_scope(|| running.as_mut().now_or_never()).ok_or(running)
                    });
                    match started.await.map_err(CallError::failed)? {
                        Ok(result) => result,
                        Err(running) => running.await,
                    }
                })
                .await;
                counted.outcome = outcome(&result);
                result
            })
        }))
    }
}

/// A function with its method, created by `#[method]`.
///
/// Argument of [`Local::add`] and [`Builder::methods`](crate::Builder::methods). The macro `methods!` returns an
/// array of such functions. [`Builder`](crate::Builder) has an example.
pub struct MethodFunction {
    pub(crate) method: Result<Method, InvalidMethod>,
    function: Function,
}

impl fmt::Debug for MethodFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MethodFunction").field(&self.method.as_ref().map(Method::id)).finish()
    }
}

/// Functions in this process, and their methods.
///
/// An application needs a `Local` only for functions without the attribute `#[method]`. In this example, the schema
/// is known only at run time:
///
/// ```
/// use callgate::local::{Error, Local};
/// use callgate::model::{Method, Safety};
/// use callgate::{Callgate, Caller};
/// use serde_json::{Value, json};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cities = ["Oslo", "Rome"];
/// let schema = json!({"type": "object", "properties": {"city": {"enum": cities}}});
/// let method = Method::new("weather".parse()?).input_schema(schema)?.safety(Safety::ReadOnly);
/// let mut local = Local::default();
/// local.method(method, async |_, arguments: Value| {
///     Ok::<_, Error>(json!({"city": arguments["city"], "celsius": 21}))
/// });
///
/// let server = Callgate::builder().local(local).build()?;
/// let anybody = server.as_caller(Caller::anonymous());
/// assert_eq!(anybody.call("weather", json!({"city": "Rome"})).await?["celsius"], 21);
/// assert!(anybody.call("weather", json!({"city": "Paris"})).await.is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Local {
    methods: Vec<Method>,
    functions: HashMap<String, Function, foldhash::fast::RandomState>,
    stats: LocalStats,
}

impl Local {
    /// Adds a function with the attribute `#[method]`.
    pub fn add(&mut self, function: MethodFunction) -> Result<(), InvalidMethod> {
        let MethodFunction { method, function } = function;
        self.insert_function(method?, function);
        Ok(())
    }

    /// Adds a function. Its arguments are deserialized from an object that contains the parameters by name, including
    /// defaults.
    pub fn method<A, R, F, Fut>(&mut self, method: Method, function: F)
    where
        A: DeserializeOwned + Send,
        R: Serialize,
        F: Fn(Context, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Error>> + Send + 'static,
    {
        self.insert(method, move |context, params| {
            let call = read(params).map(|arguments| function(context, arguments));
            async move { Ok(to_raw_value(&call?.await?).map_err(Error::from)?.into()) }
        });
    }

    /// Adds a function that fills a [`Response`]. The contents of the response are the result. The return value of the
    /// function is ignored.
    pub fn display_method<A, R, F>(&mut self, method: Method, function: F)
    where
        A: DeserializeOwned + Send + 'static,
        R: Send,
        F: for<'a> Fn(&'a mut Response, Context, A) -> BoxFuture<'a, Result<R, Error>>,
        F: Send + Sync + 'static,
    {
        let function = Arc::new(function);
        self.insert(method, move |context, params| {
            let function = Arc::clone(&function);
            let arguments = read(params);
            async move {
                let mut response = Response::default();
                function(&mut response, context, arguments?).await?;
                Ok(to_raw_value(&response.contents).map_err(Error::from)?.into())
            }
        });
    }

    /// Adds a function that returns content blocks instead of JSON.
    pub fn content_method<A, R, F, Fut>(&mut self, method: Method, function: F)
    where
        A: DeserializeOwned + Send,
        R: Into<ToolContent>,
        F: Fn(Context, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Error>> + Send + 'static,
    {
        self.insert(method, move |context, params| {
            let call = read(params).map(|arguments| function(context, arguments));
            async move { Ok(CallOutput::Content(call?.await?.into())) }
        });
    }

    fn insert<F, Fut>(&mut self, method: Method, function: F)
    where
        F: Fn(Context, &RawValue) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = FunctionResult> + Send + 'static,
    {
        self.insert_function(method, Function::new_async(function));
    }

    fn insert_function(&mut self, method: Method, function: Function) {
        // If two methods have the same id, the catalog serves the first one, so the first function must run.
        self.functions.entry(method.id().to_string()).or_insert(function);
        self.methods.push(method.upstream(LOCAL));
    }

    /// Adds all functions of `other`.
    pub fn extend(&mut self, other: Self) {
        let Self { methods, functions, .. } = other;
        self.methods.extend(methods);
        for (id, function) in functions {
            self.functions.entry(id).or_insert(function);
        }
    }

    /// Returns the methods in the order of addition.
    pub fn methods(&self) -> &[Method] {
        &self.methods
    }
}

/// Deserializes arguments. JSON Schema accepts `1.0` as an integer, so floats without a fraction are converted to
/// integers if necessary. Remaining errors are reported to the caller.
pub(crate) fn read<A: DeserializeOwned>(params: &RawValue) -> Result<A, CallError> {
    let invalid = |error: serde_json::Error| {
        CallError::arguments(format!("arguments: {}", strict_json::problem(&error)))
    };
    serde_json::from_str(params.get()).or_else(|_| {
        let mut value: Value = serde_json::from_str(params.get()).map_err(invalid)?;
        convert_integral_floats(&mut value);
        serde_json::from_value(value).map_err(invalid)
    })
}

fn convert_integral_floats(value: &mut Value) {
    /// Floats represent all integers up to this one exactly.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            if float.fract() == 0.0 && float.abs() <= EXACT {
                #[expect(clippy::cast_possible_truncation, reason = "whole, and in range")]
                let integer = float as i64;
                *number = integer.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(convert_integral_floats),
        Value::Object(members) => members.values_mut().for_each(convert_integral_floats),
        _ => {}
    }
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.methods.iter().map(Method::id)).finish()
    }
}

impl Upstream for Local {
    fn counters(&self) -> Option<Counters> {
        (!self.functions.is_empty()).then(|| self.stats.counters(OUTCOMES.into_iter()))
    }

    fn is_immediate(&self, method: &str) -> bool {
        matches!(self.functions.get(method), Some(Function::Immediate(_)))
    }

    fn call_now(&self, method: &str, params: &RawValue) -> Option<FunctionResult> {
        let Some(Function::Immediate(function)) = self.functions.get(method) else { return None };
        if params.get().len() > MAX_INLINE {
            return None;
        }
        let mut counted = self.stats.begin(CANCELLED);
        let result = run_now(&**function, params);
        counted.outcome = outcome(&result);
        Some(result)
    }

    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, FunctionResult> {
        match self.functions.get(call.method) {
            Some(Function::Async(run)) => run(call, &self.stats),
            Some(Function::Immediate(function)) => {
                let function = Arc::clone(function);
                Box::pin(async move {
                    let mut counted = self.stats.begin(CANCELLED);
                    let params = call.params.to_owned();
                    let run = tokio::task::spawn_blocking(move || run_now(&*function, &params));
                    let result = run.await.map_err(CallError::failed).flatten();
                    counted.outcome = outcome(&result);
                    result
                })
            }
            None => {
                let detail = format!("no function is registered for `{}`", call.method);
                Box::pin(std::future::ready(Err(CallError::failed(detail))))
            }
        }
    }
}

/// Returns the index of an outcome in [`OUTCOMES`].
fn outcome(result: &FunctionResult) -> usize {
    match result {
        Ok(_) => 0,
        Err(CallError::Failed(_)) => 2,
        Err(_) => 1,
    }
}

/// Runs a function. A panic is a failed call.
fn run_now(function: &RunNow, params: &RawValue) -> FunctionResult {
    let result = catch_unwind(AssertUnwindSafe(|| function(params)));
    result.unwrap_or_else(|panic| Err(panic_error(&*panic)))
}

/// Converts a panic to a failed call.
async fn catch_panic<T>(run: impl Future<Output = Result<T, CallError>>) -> Result<T, CallError> {
    let result = AssertUnwindSafe(run).catch_unwind().await;
    result.unwrap_or_else(|panic| Err(panic_error(&*panic)))
}

/// Runs code of the embedding program that is not a method, such as a prompt or a resource. Converts a panic to a
/// failed call.
pub(crate) fn guarded<T: Send + 'static, F: Future<Output = Result<T, Error>> + Send + 'static>(
    run: impl FnOnce() -> F + Send + 'static,
) -> BoxFuture<'static, Result<T, CallError>> {
    Box::pin(catch_panic(async move { Ok(run().await?) }))
}

fn panic_error(panic: &(dyn std::any::Any + Send)) -> CallError {
    let message = panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    CallError::failed(format!("the function panicked: {message}"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use super::*;
    use crate::access::Caller;
    use crate::model::method::Safety;
    use crate::upstream::{BudgetReservation, Client};

    #[test]
    fn a_call_that_is_cancelled_while_it_waits_for_a_thread_does_not_run() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.max_blocking_threads(1).build().unwrap();
        let has_run = Arc::new(AtomicBool::new(false));
        let mut local = Local::default();
        let runs = Arc::clone(&has_run);
        local.method(Method::new("run".parse().unwrap()), move |_, _: Value| {
            let runs = Arc::clone(&runs);
            async move { Ok::<_, Error>(runs.swap(true, Ordering::SeqCst)) }
        });
        let params = to_raw_value(&"a".repeat(MAX_INLINE)).unwrap();
        let call = Call {
            id: "1",
            method: "run",
            remote_name: "run",
            params: &params,
            safety: Safety::ReadOnly,
            caller: &Caller::anonymous(),
            client: &Client::default(),
            reservation: &BudgetReservation::default(),
        };
        runtime.block_on(async {
            for is_cancelled in [true, false] {
                let (unblock, blocked) = mpsc::channel::<()>();
                tokio::task::spawn_blocking(move || blocked.recv());
                let mut running = local.call(call);
                assert!(running.as_mut().now_or_never().is_none());
                if is_cancelled {
                    drop(running);
                    drop(unblock);
                    // The only blocking thread runs its tasks in order, so the call would have run before this task.
                    tokio::task::spawn_blocking(|| ()).await.unwrap();
                } else {
                    drop(unblock);
                    running.await.unwrap();
                }
                assert_ne!(has_run.load(Ordering::SeqCst), is_cancelled);
            }
        });
    }
}
