//! cargo run --example embedded
//!
//! Adds `/mcp` to a to-do application: its functions become tools, and its own authentication decides who may use
//! them.
//!
//! ```sh
//! curl -H 'Authorization: Bearer ada' http://127.0.0.1:3000/todos
//! curl -H 'Authorization: Bearer ada' http://127.0.0.1:3000/jsonrpc \
//!   -d '{"jsonrpc": "2.0", "id": 1, "method": "todo.add", "params": {"text": "Water the plants"}}'
//! ```

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Extension, Router};
use callgate::{Caller, Callgate, Context, Error, Grants, Mask, User, plugin};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::net::TcpListener;

// The application without Callgate.

#[derive(Debug, Clone, Serialize, JsonSchema)]
struct Todo {
    id: usize,
    text: String,
    done: bool,
}

#[derive(Debug, Default)]
struct Todos(Mutex<Vec<Todo>>);

impl Todos {
    fn all(&self) -> Vec<Todo> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<Todo>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn page(State(todos): State<Arc<Todos>>, user: Option<Extension<Caller>>) -> Response {
    let Some(Extension(caller)) = user else {
        let challenge = [("www-authenticate", "Bearer realm=\"to-dos\"")];
        return (StatusCode::UNAUTHORIZED, challenge, "Who are you?").into_response();
    };
    let lines = todos.all().into_iter().map(|todo| {
        let mark = if todo.done { 'x' } else { ' ' };
        format!("[{mark}] {} {}\n", todo.id, todo.text)
    });
    format!("To-dos for {}:\n{}", caller.name(), lines.collect::<String>()).into_response()
}

/// Returns the user of a request. A real application has its tokens in a database.
fn authenticate(headers: &HeaderMap) -> Option<Caller> {
    let (id, name, mask) = match headers.get("authorization")?.to_str().ok()? {
        "Bearer ada" => (1, "ada", Mask::Execute),
        "Bearer guest" => (2, "guest", Mask::Read),
        _ => return None,
    };
    let user = User { id, name: name.to_owned(), role: None };
    Some(Caller::user(user, Grants::from_iter([("todos", mask)])))
}

async fn identify(mut request: Request, next: Next) -> Response {
    if let Some(caller) = authenticate(request.headers()) {
        request.extensions_mut().insert(caller);
    }
    next.run(request).await
}

// The tools.

#[plugin::methods]
impl Todos {
    /// Lists the to-dos, in the order in which they were added.
    #[method(id = "todo.list", section("todos", read), read_only)]
    fn list(&self) -> Vec<Todo> {
        self.all()
    }

    /// Adds a to-do and returns it with its id.
    #[method(id = "todo.add", section("todos", write), destructive)]
    fn add(
        &self,
        ctx: &Context,
        /// The task, as text.
        text: String,
    ) -> Result<Todo, Error> {
        if text.trim().is_empty() {
            return Err(Error::tool("the text of the to-do is empty"));
        }
        tracing::info!(by = ctx.caller.name(), "added a to-do");
        Ok(self.change(|todos| {
            let todo = Todo { id: todos.len() + 1, text, done: false };
            todos.push(todo.clone());
            todo
        }))
    }

    /// Marks a to-do as done.
    #[method(id = "todo.finish", section("todos", write), destructive, idempotent)]
    fn finish(
        &self,
        /// The to-do's id.
        id: usize,
    ) -> Result<Todo, Error> {
        self.change(|todos| {
            let todo = todos.iter_mut().find(|todo| todo.id == id);
            let todo = todo.ok_or_else(|| Error::tool(format!("there is no to-do {id}")))?;
            todo.done = true;
            Ok(todo.clone())
        })
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let todos = Arc::new(Todos::default());
    let server = Callgate::builder()
        .name("to-dos")
        .shared_plugin(Arc::clone(&todos))
        .require_auth()
        .build()?;
    let router = Router::new()
        .route("/todos", get(page))
        .with_state(todos)
        .merge(server.router())
        .layer(from_fn(identify));
    let listener = TcpListener::bind(address).await?;
    tracing::info!("serving http://{}/todos and /mcp", listener.local_addr()?);
    // Passes on the address of each client, because limits apply to anonymous clients by address.
    let router = router.into_make_service_with_connect_info::<SocketAddr>();
    Ok(axum::serve(listener, router).await?)
}
