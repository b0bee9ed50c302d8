//! Starts each example with the command in its first line, and uses it with rmcp's client.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use rmcp::model::{
    CallToolRequestParams, CallToolResult, GetPromptRequestParams, ReadResourceRequestParams,
};
use rmcp::service::RunningService;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientLifecycleMode, ClientServiceExt as _, RoleClient};
use serde_json::{Value, json};

use callgate_test_support::workspace_program;

use crate::rmcp_client::modern;

/// A running example. It stops when it is dropped.
struct Example {
    child: Child,
    /// Output until the example was ready.
    output: Vec<String>,
    /// `127.0.0.1:…`
    address: String,
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Example {
    fn start(name: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(workspace_program(name));
        command.args(arguments).env("NO_COLOR", "1").stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut output = Vec::new();
        let address = loop {
            let line = lines.next().unwrap_or_else(|| panic!("{command:?}: {output:?}")).unwrap();
            output.push(line.clone());
            if let Some((_, rest)) = line.split_once("http://") {
                break rest.split('/').next().unwrap().to_owned();
            }
        };
        // A full pipe would block the example.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, output, address }
    }

    async fn client(
        &self,
        token: Option<&str>,
        mode: ClientLifecycleMode,
    ) -> RunningService<RoleClient, ()> {
        let url = format!("http://{}/mcp", self.address);
        let mut config = StreamableHttpClientTransportConfig::with_uri(url);
        if let Some(token) = token {
            config = config.auth_header(token);
        }
        let transport = StreamableHttpClientTransport::from_config(config);
        ().serve_with_lifecycle(transport, mode).await.unwrap()
    }

    /// Sends a raw HTTP request. Returns the response.
    fn http(&self, request: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let (length, address) = (body.len(), &self.address);
        let head = format!(
            "{request} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer ada\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    }

    fn stop(mut self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        assert!(self.child.wait().unwrap().success());
    }
}

type ExampleClient = RunningService<RoleClient, ()>;

async fn names(client: &ExampleClient) -> Vec<String> {
    let tools = client.list_all_tools().await.unwrap();
    tools.into_iter().map(|tool| tool.name.into_owned()).collect()
}

async fn call(client: &ExampleClient, name: &'static str, arguments: Value) -> CallToolResult {
    let arguments = arguments.as_object().unwrap().clone();
    client.call_tool(CallToolRequestParams::new(name).with_arguments(arguments)).await.unwrap()
}

fn text(result: &CallToolResult) -> &str {
    &result.content[0].as_text().unwrap().text
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hello_example_serves_two_tools() {
    let source = include_str!("../../../../examples/hello.rs");
    assert!(source.lines().count() <= 25, "the example must be small");
    let guide = include_str!("../../../../docs/start/first-function.md");
    let (_, code) = source.split_once('\n').unwrap();
    assert!(guide.contains(code), "the guide must contain the example");
    let hello = Example::start("hello", &["127.0.0.1:0"]);
    for mode in [modern(), ClientLifecycleMode::Initialize] {
        let client = hello.client(None, mode).await;
        assert_eq!(names(&client).await, ["divide", "greet"]);
        let greeting = call(&client, "greet", json!({"name": "Ada"})).await;
        assert_eq!(text(&greeting), "Hello, Ada!");
        let ratio = call(&client, "divide", json!({"dividend": 9, "divisor": 4})).await;
        assert_eq!(text(&ratio), "2");
        let failed = call(&client, "divide", json!({"dividend": 1, "divisor": 0})).await;
        assert_eq!(failed.is_error, Some(true));
        assert!(text(&failed).contains("this cannot be divided"));
        client.cancel().await.unwrap();
    }
    hello.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_everything_example_serves_stdio() {
    let mut command = tokio::process::Command::new(workspace_program("everything"));
    command.arg("--stdio").kill_on_drop(true);
    let transport = TokioChildProcess::new(command).unwrap();
    let client = ().serve_with_lifecycle(transport, modern()).await.unwrap();
    assert!(names(&client).await.contains(&"test_simple_text".to_owned()));
    let greeting = call(&client, "greet", json!({"name": "Ada"})).await;
    assert_eq!(text(&greeting), "Hello, Ada!");
    client.cancel().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_example_serves_mcp_with_its_own_users() {
    let embedded = Example::start("embedded", &["127.0.0.1:0"]);
    let ada = embedded.client(Some("ada"), modern()).await;
    assert_eq!(names(&ada).await, ["todo_add", "todo_finish", "todo_list"]);
    let added = call(&ada, "todo_add", json!({"text": "Water the plants"})).await;
    let todo = json!({"id": 1, "text": "Water the plants", "done": false});
    assert_eq!(added.structured_content, Some(todo));
    let guest = embedded.client(Some("guest"), modern()).await;
    assert_eq!(names(&guest).await, ["todo_list"]);
    assert!(text(&call(&guest, "todo_list", json!({})).await).contains("Water the plants"));

    let page = embedded.http("GET /todos", "");
    assert!(page.contains("To-dos for ada:\n[ ] 1 Water the plants"), "{page}");
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "todo.finish", "params": [1]});
    let reply = embedded.http("POST /jsonrpc", &request.to_string());
    assert!(reply.ends_with(r#""done":true}}"#), "{reply}");
    assert!(embedded.http("GET /todos", "").contains("[x] 1 Water the plants"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shop_example_keeps_its_state_in_a_database() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("shop.db");
    let arguments = ["--listen", "127.0.0.1:0", "--database", database.to_str().unwrap()];
    let shop = Example::start("shop", &arguments);
    let token = |user: &str| {
        let start = format!("shop: token of {user}, shown only once: ");
        let line = shop.output.iter().find_map(|line| line.strip_prefix(&start));
        line.unwrap_or_else(|| panic!("{:?}", shop.output)).to_owned()
    };
    let (keeper_token, customer_token) = (token("keeper"), token("customer"));
    let customer = shop.client(Some(&customer_token), modern()).await;
    assert_eq!(names(&customer).await, ["shop_order_place", "shop_products_find"]);
    let order = call(&customer, "shop_order_place", json!({"product": 1, "quantity": 2})).await;
    assert!(text(&order).contains(r#""total":900"#), "{order:?}");
    shop.stop();

    let shop = Example::start("shop", &arguments);
    assert_eq!(shop.output.len(), 1, "tokens are shown only once");
    let keeper = shop.client(Some(&keeper_token), ClientLifecycleMode::Initialize).await;
    let product = keeper.read_resource(ReadResourceRequestParams::new("shop://products/1")).await;
    assert!(serde_json::to_string(&product.unwrap()).unwrap().contains("4.50 €, 38 in stock"));
    let arguments = json!({"below": "7"}).as_object().unwrap().clone();
    let restock = GetPromptRequestParams::new("restock").with_arguments(arguments);
    let restock = keeper.get_prompt(restock).await.unwrap();
    let messages = serde_json::to_string(&restock.messages).unwrap();
    assert!(messages.contains("Samovar (id 4): 2 left"), "{messages}");
}
