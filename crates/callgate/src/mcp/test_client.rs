//! An MCP client in the same process, for tests of servers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Identify, Inbound, InboundKind, Mcp, McpResponse};
use crate::access::Caller;
use crate::wire::Revision;
use crate::wire::jsonrpc::{INTERNAL_ERROR, RpcError};

type AnswerFunction<'a> = Box<dyn Fn(&Value) -> Value + Send + Sync + 'a>;

/// An MCP client in the same process, for tests. It speaks the newest revision.
///
/// Each function returns the result that a client would get, or the protocol's error. If a tool fails, the result has
/// `isError`.
///
/// ```
/// use callgate::ask::Elicited;
/// use callgate::{Callgate, Caller, Context, Error, method, methods};
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use serde_json::json;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Name { name: String }
///
/// /// Greets the user.
/// #[method(read_only)]
/// async fn greet(ctx: &Context) -> Result<String, Error> {
///     let name = ctx.ask_for::<Name>("What is your name?").await?;
///     Ok(format!("Hello, {}!", name.map_or("stranger".to_owned(), |it| it.name)))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Callgate::builder().methods(methods![greet]).build()?;
/// let client = server.test_client(Caller::anonymous());
/// let client = client.answering(|question| {
///     assert_eq!(question["params"]["message"], "What is your name?");
///     Elicited::accept(json!({"name": "Ada"}))
/// });
/// let result = client.call("greet", ()).await?;
/// assert_eq!(result["content"][0]["text"], "Hello, Ada!");
/// # Ok(())
/// # }
/// ```
pub struct TestClient<'a> {
    mcp: &'a Arc<Mcp>,
    caller: Caller,
    answer: Option<AnswerFunction<'a>>,
}

impl fmt::Debug for TestClient<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestClient").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl<'a> TestClient<'a> {
    pub(crate) fn new(mcp: &'a Arc<Mcp>, caller: Caller) -> Self {
        Self { mcp, caller, answer: None }
    }

    /// Sets the function that answers questions. A question has the form `{"method": "elicitation/create", "params":
    /// {…}}`. Without this function, the client declares no capabilities.
    #[must_use]
    pub fn answering<A: Into<Value>>(
        mut self,
        answer: impl Fn(&Value) -> A + Send + Sync + 'a,
    ) -> Self {
        self.answer = Some(Box::new(move |question| answer(question).into()));
        self
    }

    /// Calls a tool by the id of its method or by the tool name.
    pub async fn call(&self, tool: &str, arguments: impl Serialize) -> Result<Value, RpcError> {
        let catalog = self.mcp.gateway.catalog();
        let name = catalog.by_id(tool).map_or(tool, |entry| entry.name().as_str());
        self.request("tools/call", json!({"name": name, "arguments": json(arguments)?})).await
    }

    /// Returns the prompts that the caller sees.
    pub async fn prompts(&self) -> Result<Vec<Value>, RpcError> {
        self.list("prompts/list", "prompts").await
    }

    /// Gets a prompt.
    pub async fn prompt(&self, name: &str, arguments: impl Serialize) -> Result<Value, RpcError> {
        self.request("prompts/get", json!({"name": name, "arguments": json(arguments)?})).await
    }

    /// Returns the resources that the caller sees.
    pub async fn resources(&self) -> Result<Vec<Value>, RpcError> {
        self.list("resources/list", "resources").await
    }

    /// Reads a resource.
    pub async fn read(&self, uri: &str) -> Result<Value, RpcError> {
        self.request("resources/read", json!({"uri": uri})).await
    }

    async fn list(&self, method: &str, member: &str) -> Result<Vec<Value>, RpcError> {
        let (mut entries, mut params) = (Vec::new(), json!({}));
        loop {
            let mut page = self.request(method, params).await?;
            if let Some(Value::Array(items)) = page.get_mut(member) {
                entries.append(items);
            }
            match page.get("nextCursor") {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => return Ok(entries),
            }
        }
    }

    /// Sends a request. While the server asks questions, sends the request again with the answers.
    pub async fn request(&self, method: &str, params: Value) -> Result<Value, RpcError> {
        let mut params = match params {
            Value::Object(params) => params,
            _ => Map::new(),
        };
        let capabilities = match &self.answer {
            Some(_) => json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}),
            None => json!({}),
        };
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": Revision::NEWEST.as_str(),
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        params.insert("_meta".to_owned(), meta);
        let mut answered_questions = BTreeMap::new();
        loop {
            let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
            let result = self.send(&message.to_string()).await?;
            let (Some(Value::Object(questions)), Some(answer)) =
                (result.get("inputRequests"), &self.answer)
            else {
                return Ok(result);
            };
            for (key, question) in questions {
                if answered_questions.insert(key.clone(), question.clone()).as_ref()
                    == Some(question)
                {
                    let problem = format!("the server did not accept the answer to {question}");
                    return Err(RpcError::new(INTERNAL_ERROR, problem));
                }
            }
            let answers: Map<String, Value> =
                questions.iter().map(|(key, question)| (key.clone(), answer(question))).collect();
            params.insert("inputResponses".to_owned(), answers.into());
            let state = result.get("requestState").cloned().unwrap_or_default();
            params.insert("requestState".to_owned(), state);
        }
    }

    async fn send(&self, body: &str) -> Result<Value, RpcError> {
        let identify = || Arc::new(self.caller.clone()) as Arc<dyn Identify>;
        let inbound = Inbound {
            kind: InboundKind::Message,
            headers: None,
            body,
            connection: None,
            caller: &self.caller,
            identify: &identify,
            accepts_events: false,
        };
        let message = match self.mcp.handle(&inbound).await {
            Ok(McpResponse::Message(message)) => message,
            Ok(McpResponse::Call(mut call)) => match call.reply().await {
                Some(reply) => reply.message,
                None => return Err(RpcError::new(INTERNAL_ERROR, "the call was cancelled")),
            },
            Ok(_) => {
                return Err(RpcError::new(
                    INTERNAL_ERROR,
                    "this method does not return a single result",
                ));
            }
            Err(error) => error.message(),
        };
        message.outcome()
    }
}

fn json(arguments: impl Serialize) -> Result<Value, RpcError> {
    serde_json::to_value(arguments)
        .map_err(|error| RpcError::new(INTERNAL_ERROR, error.to_string()))
}
