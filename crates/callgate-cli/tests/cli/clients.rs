//! Real MCP clients against the program. Checks the tools that they see, and every message of the server.
//!
//! The JavaScript clients are listed in `tests/clients/package.json` and installed on first use with the system's npm.
//! The traffic between client and program is recorded, and each message of the server is checked against the schema of
//! its revision.

mod bridge;
pub(crate) mod everything;
mod frameworks;
pub(crate) mod node;
mod recorder;
mod schemas;
mod transcript;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::{Value, json};

use self::recorder::Recorder;
use self::transcript::Transcript;
use super::support::{Server, TIMEOUT, TestDirectory};

const DATABASE: &str = "sqlite:callgate-demo.db";
const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// The demo with small pages, a running server, and a token that survives restarts of the server.
struct Demo {
    dir: TestDirectory,
    server: Server,
    token: String,
}

impl Demo {
    /// Creates a demo that offers no newer revision than this one.
    fn up_to(newest: &str) -> Self {
        let demo = Self::new();
        let setting = ["setting", "set", "mcp_protocol_version", newest];
        demo.dir.ok(&[&setting[..], &["--database", DATABASE]].concat());
        demo.server.wait_until("the cap counts", |server| {
            let metadata = server.get("", "/.well-known/mcp.json").json();
            metadata["protocol_versions"].as_array().unwrap().last().unwrap() == newest
        });
        demo
    }

    fn new() -> Self {
        let dir = TestDirectory::new();
        let server = dir.serve(&["--demo"]);
        dir.ok(&["setting", "set", "mcp_page_size", "2", "--database", DATABASE]);
        let token = dir.ok(&["token", "add", "reader", "--database", DATABASE]);
        server.wait_until("the setting counts", |server| {
            let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
            let reply = server.request("POST /mcp", token.trim(), body).json();
            reply["result"]["tools"].as_array().is_some_and(|tools| tools.len() == 2)
        });
        Self { token: token.trim().to_owned(), dir, server }
    }

    fn grant_another_section(&self) {
        let grant = ["grant", "set", "--role", "reader", "user_management", "read"];
        self.dir.ok(&[&grant[..], &["--database", DATABASE]].concat());
    }
}

/// The reports of a client about the steps of its run.
struct ClientRun(Vec<Value>);

impl ClientRun {
    fn step(&self, name: &str) -> &Value {
        let step = self.0.iter().find(|step| step["step"] == name);
        step.unwrap_or_else(|| panic!("no step {name}: {:?}", self.0))
    }
}

struct ChildGuard(Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running client.
struct ClientHandle {
    input: ChildStdin,
    stderr: Arc<Mutex<String>>,
}

impl ClientHandle {
    /// Lets the client continue.
    fn resume(&mut self) {
        writeln!(self.input).unwrap();
    }

    /// Waits until the client, or a program that it started, has printed this text.
    fn wait_for_stderr(&self, text: &str) {
        let started = Instant::now();
        while !self.stderr.lock().unwrap().contains(text) {
            assert!(started.elapsed() < TIMEOUT, "it never said {text}");
            std::thread::yield_now();
        }
    }
}

/// Runs the client. When the client waits for a change of its tools, grants access to more tools.
fn run(command: Command, demo: &Demo) -> ClientRun {
    let (run, _) = run_with_steps(command, |step, _| {
        if step["step"] == "ready_for_change" {
            demo.grant_another_section();
        }
    });
    run
}

/// Runs a client to its end, with an action at each step. Also returns the error output of the
/// client.
fn run_with_steps(
    mut command: Command,
    mut on_step: impl FnMut(&Value, &mut ClientHandle),
) -> (ClientRun, String) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = ChildGuard(command.spawn().unwrap());
    let pipe = child.0.stderr.take().unwrap();
    let mut handle = ClientHandle { input: child.0.stdin.take().unwrap(), stderr: Arc::default() };
    let shared = Arc::clone(&handle.stderr);
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let mut stderr = shared.lock().unwrap();
            stderr.push_str(&line);
            stderr.push('\n');
        }
    });
    let mut steps = Vec::new();
    for line in BufReader::new(child.0.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let step: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        on_step(&step, &mut handle);
        steps.push(step);
    }
    let status = child.0.wait().unwrap();
    reader.join().unwrap();
    let stderr = handle.stderr.lock().unwrap().clone();
    assert!(status.success(), "{status}: {stderr}\n{steps:?}");
    (ClientRun(steps), stderr)
}

/// Checks the results that every client must see.
fn check(run: &ClientRun, protocol: &str) {
    let names = [
        "content_article_markdown",
        "content_articles_list",
        "content_types_list",
        "report_projects",
        "report_yearly",
    ];
    let connect = run.step("connect");
    assert_eq!(connect["protocol"], protocol);
    assert_eq!(connect["server"]["name"], "callgate");
    assert_eq!(run.step("list")["tools"], json!(names));
    assert_eq!(run.step("list")["pages"], 3);
    assert!(run.step("list").get("dropped").is_none());
    let text = |step: &str| run.step(step)["result"]["content"][0]["text"].clone();
    assert!(text("works").as_str().unwrap().starts_with("# Welcome"));
    let types =
        json!([{"id": "article", "label": "Article"}, {"id": "page", "label": "Basic page"}]);
    let expected = match protocol {
        MODERN => types,
        "2025-11-25" | "2025-06-18" => json!({"result": types}),
        _ => Value::Null,
    };
    assert_eq!(run.step("structured")["outputSchema"], !expected.is_null());
    assert_eq!(run.step("structured")["result"]["structuredContent"], expected);
    assert_eq!(text("fails"), "there is no article 999");
    assert_eq!(run.step("fails")["result"]["isError"], true);
    assert_eq!(text("bad_argument"), "argument `id`: expected integer, found string \"x\"");
    for (step, tool) in [("forbidden", "content_article_delete"), ("unknown", "nothing_here")] {
        let error = &run.step(step)["error"];
        assert_eq!(error["code"], -32602);
        let message = error["message"].as_str().unwrap();
        assert!(
            message.ends_with(&format!("Tool '{tool}' not found or access denied")),
            "{message}"
        );
    }
    let cancel = run.step("cancel");
    assert_eq!((&cancel["rejected"], &cancel["alive"]), (&json!(true), &json!(true)));
    assert!(cancel["ms"].as_i64().unwrap() < 15_000, "it did not wait for the end: {cancel}");
    assert_eq!(run.step("progress")["notifications"][0]["progress"], 5);
    assert_eq!(run.step("resources")["resources"][0]["name"], "tools");
    assert_eq!(run.step("resources")["prompts"], json!([]));
    let after = run.step("changed")["tools"].as_array().unwrap();
    assert_eq!(after.last().unwrap(), "user_get");
    run.step("closed");
}

fn over_http(client: &str, protocol: &str, demo: Demo) {
    let recorder = Recorder::start(demo.server.address());
    let mut command = node::client(client);
    command.args(["--http", &format!("http://{}/mcp", recorder.address())]);
    command.env("CALLGATE_TOKEN", &demo.token);
    check(&run(command, &demo), protocol);
    drop(demo);
    let transcript = Transcript::of_http(&recorder.finish());
    schemas::check(&transcript, protocol);
}

fn over_stdio(client: &str, protocol: &str, demo: &Demo) {
    over_stdio_with_arguments(client, protocol, demo, "serve --demo --stdio");
}

/// Connects a client over stdio to the program with these arguments.
fn over_stdio_with_arguments(client: &str, protocol: &str, demo: &Demo, arguments: &str) {
    let (input, output) = (demo.dir.path("in.jsonl"), demo.dir.path("out.jsonl"));
    let program = demo.dir.command(&[]);
    // Records both directions.
    let pipeline = format!(
        "cd '{}' && tee -a '{}' | '{}' {arguments} | tee -a '{}'",
        demo.dir.path("").display(),
        input.display(),
        program.get_program().display(),
        output.display()
    );
    let mut command = node::client(client);
    command.args(["--stdio", "sh", "-c", &pipeline]).env("CALLGATE_TOKEN", &demo.token);
    check(&run(command, demo), protocol);
    let read = |path| std::fs::read_to_string(path).unwrap();
    let transcript = Transcript::of_lines(&read(input), &read(output));
    schemas::check(&transcript, protocol);
}

#[test]
fn typescript_sdk_1_works_over_http() {
    over_http("sdk1", LEGACY, Demo::new());
}

#[test]
fn typescript_sdk_1_works_over_stdio() {
    over_stdio("sdk1", LEGACY, &Demo::new());
}

#[test]
fn typescript_client_2_default_works_over_http() {
    over_http("client2-default", LEGACY, Demo::new());
}

#[test]
fn typescript_client_2_default_works_over_stdio() {
    over_stdio("client2-default", LEGACY, &Demo::new());
}

#[test]
fn typescript_client_2_auto_works_over_http() {
    over_http("client2-auto", MODERN, Demo::new());
}

#[test]
fn typescript_client_2_auto_works_over_stdio() {
    over_stdio("client2-auto", MODERN, &Demo::new());
}

#[test]
fn typescript_client_2_pinned_works_over_http() {
    over_http("client2-pinned", MODERN, Demo::new());
}

#[test]
fn typescript_client_2_pinned_works_over_stdio() {
    over_stdio("client2-pinned", MODERN, &Demo::new());
}

#[test]
fn a_client_of_both_eras_falls_back_to_the_newest_allowed_revision() {
    over_http("client2-auto", "2025-06-18", Demo::up_to("2025-06-18"));
    over_stdio("client2-auto", "2025-06-18", &Demo::up_to("2025-06-18"));
}

#[test]
fn older_revisions_work_over_http() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        over_http("sdk1", revision, Demo::up_to(revision));
    }
}

#[test]
fn older_revisions_work_over_stdio() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        over_stdio("sdk1", revision, &Demo::up_to(revision));
    }
}

/// Returns the output of the Inspector for a request.
fn run_inspector(demo: &Demo, era: &str, arguments: &[&str]) -> Value {
    let url = format!("http://{}/mcp", demo.server.address());
    let authorization = format!("Authorization: Bearer {}", demo.token);
    let mut command = node::inspector();
    command
        .args(["--cli", &url, "--transport", "http", "--protocol-era", era, "--header"])
        .args([&authorization, "--stored-auth-only", "--format", "json"])
        .args(arguments)
        .env("HOME", demo.dir.path(""));
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    serde_json::from_slice::<Value>(&output.stdout).unwrap()["result"].clone()
}

#[test]
fn the_inspector_lists_and_calls_in_both_eras() {
    let demo = Demo::new();
    for era in ["legacy", "modern"] {
        let list = run_inspector(&demo, era, &["--method", "tools/list"]);
        let tools = list["tools"].as_array().unwrap();
        assert_eq!(tools[0]["name"], "content_article_markdown");
        let call = ["--method", "tools/call", "--tool-name", "content_article_markdown"];
        let call = run_inspector(&demo, era, &[&call[..], &["--tool-arg", "id=1"]].concat());
        let text = call["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("# Welcome"), "{era}: {text}");
    }
}
