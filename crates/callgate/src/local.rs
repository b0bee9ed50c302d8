//! Rust functions as an [`Upstream`].
//!
//! ```
//! use callgate::{Local, Method, Param, local::Error};
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

use std::collections::HashMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use crate::access::Caller;
use crate::jsonrpc::RpcError;
use crate::method::{LOCAL, Method};
use crate::upstream::{BoxFuture, Call, Upstream, UpstreamError};

/// The code of errors made by [`Error::tool`]: outside of the ranges that JSON-RPC and MCP reserve.
const TOOL_ERROR: i64 = 1;

/// What a function knows of its call.
#[derive(Debug, Clone)]
pub struct Context {
    /// Who is asking.
    pub caller: Caller,
    /// The call's id, the same as in the logs.
    pub call_id: String,
}

/// Why a function has no result.
#[derive(Debug)]
pub struct Error(Kind);

#[derive(Debug)]
enum Kind {
    Tool(RpcError),
    Internal(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// An error whose words are meant for the caller.
    pub fn tool(message: impl Into<String>) -> Self {
        Self(Kind::Tool(RpcError::new(TOOL_ERROR, message)))
    }

    /// An error with a code and data of its own, meant for the caller.
    pub fn rpc(error: RpcError) -> Self {
        Self(Kind::Tool(error))
    }
}

/// Any other error is internal: it reaches the log, not the caller.
impl<E: std::error::Error + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        Self(Kind::Internal(Box::new(error)))
    }
}

impl From<Error> for UpstreamError {
    fn from(Error(kind): Error) -> Self {
        match kind {
            Kind::Tool(error) => Self::Rpc(error),
            Kind::Internal(error) => Self::Failed(error),
        }
    }
}

/// What a display method fills instead of returning something: its contents are the result.
#[derive(Debug, Default)]
pub struct Response {
    contents: Map<String, Value>,
}

impl Response {
    /// Puts something into the response.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.contents.insert(name.into(), value.into());
    }
}

type Outcome = Result<Box<RawValue>, UpstreamError>;
type Function = dyn Fn(Context, Box<RawValue>) -> BoxFuture<'static, Outcome> + Send + Sync;

/// Functions in this process, with the methods that they are.
#[derive(Default)]
pub struct Local {
    methods: Vec<Method>,
    functions: HashMap<String, Arc<Function>>,
}

impl Local {
    /// Adds a function. Its arguments come as one value, read from an object with the parameters'
    /// names and their defaults filled in.
    pub fn method<A, R, F, Fut>(&mut self, method: Method, function: F)
    where
        A: DeserializeOwned + Send,
        R: Serialize,
        F: Fn(Context, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Error>> + Send + 'static,
    {
        self.insert(method, move |context, params| {
            let call = read(&params).map(|arguments| function(context, arguments));
            Box::pin(async move { Ok(to_raw_value(&call?.await?).map_err(Error::from)?) })
        });
    }

    /// Adds a function that takes a [`Response`] first and fills it. What it returns does not
    /// matter; the response's contents are the result.
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
            Box::pin(async move {
                let mut response = Response::default();
                function(&mut response, context, read(&params)?).await?;
                Ok(to_raw_value(&response.contents).map_err(Error::from)?)
            })
        });
    }

    fn insert(
        &mut self,
        method: Method,
        function: impl Fn(Context, Box<RawValue>) -> BoxFuture<'static, Outcome> + Send + Sync + 'static,
    ) {
        self.functions.insert(method.id().to_string(), Arc::new(function));
        self.methods.push(method.upstream(LOCAL));
    }

    /// The methods, in the order in which they were added.
    pub fn methods(&self) -> &[Method] {
        &self.methods
    }
}

/// The check has passed, so a mismatch is the function's declaration, not the caller's fault.
fn read<A: DeserializeOwned>(params: &RawValue) -> Result<A, Error> {
    Ok(serde_json::from_str(params.get())?)
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.methods.iter().map(Method::id)).finish()
    }
}

impl Upstream for Local {
    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let function = self.functions.get(call.method).ok_or_else(|| {
                UpstreamError::failed(format!("no function is registered for `{}`", call.method))
            })?;
            let context = Context { caller: call.caller.clone(), call_id: call.id.to_owned() };
            let params = call.params.to_owned();
            // A panic, also one before the first await, is a failed call and nothing more.
            let running = AssertUnwindSafe(async move { function(context, params).await });
            running.catch_unwind().await.unwrap_or_else(|panic| Err(panicked(&*panic)))
        })
    }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> UpstreamError {
    let message = panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    UpstreamError::failed(format!("the function panicked: {message}"))
}
