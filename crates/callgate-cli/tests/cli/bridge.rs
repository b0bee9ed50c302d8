//! `callgate bridge` as a client starts it: reads and writes lines, and exits at the end.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::clients::everything::fixed_port;
use super::reverse_proxy::ReverseProxy;
use super::support::{Server, TIMEOUT, TestDirectory};

const TOKEN: &str = "cg_never_to_be_seen";

/// The running program, and its client.
pub(crate) struct Bridge {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Bridge {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { input: child.stdin.take(), output, child }
    }

    pub(crate) fn send(&mut self, line: &str) {
        let line = format!("{line}\n");
        self.input.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    }

    pub(crate) fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        if line.is_empty() {
            let mut stderr = String::new();
            self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
            panic!("nothing more: {stderr}");
        }
        line
    }

    pub(crate) fn next_message(&mut self) -> Value {
        let line = self.next_line();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"))
    }

    pub(crate) fn request(&mut self, id: i64, method: &str, params: &Value) -> Value {
        self.send(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
        );
        let response = self.next_message();
        assert_eq!(response["id"], id, "{response}");
        response
    }

    pub(crate) fn initialize(&mut self) -> Value {
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}});
        let response = self.request(0, "initialize", &params);
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        response
    }

    /// Closes the client. Returns the exit code, the unread output, and stderr.
    pub(crate) fn close(mut self) -> (Option<i32>, String, String) {
        drop(self.input.take());
        let (mut rest, mut stderr) = (String::new(), String::new());
        self.output.read_to_string(&mut rest).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        (self.child.wait().unwrap().code(), rest, stderr)
    }
}

/// Returns `true` if the process exists and has not ended.
pub(crate) fn is_running(process: &str) -> bool {
    let output = Command::new("ps").args(["-o", "stat=", "-p", process]).output().unwrap();
    let state = String::from_utf8(output.stdout).unwrap();
    !state.trim().is_empty() && !state.starts_with('Z')
}

fn wait_until(condition: &str, mut is_met: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_met() {
        assert!(started.elapsed() < TIMEOUT, "never: {condition}");
        std::thread::yield_now();
    }
}

/// Starts a bridge to the demo.
pub(crate) fn bridge_to_demo(dir: &TestDirectory, server: &Server, arguments: &[&str]) -> Bridge {
    let port = server.address().port().to_string();
    let all_arguments = [&["bridge", "--port", &port], arguments].concat();
    let mut command = dir.command(&all_arguments);
    command.env("CALLGATE_TOKEN", server.token("admin"));
    Bridge::start(command)
}

#[test]
fn the_bridge_starts_without_options_and_without_a_valid_configuration() {
    let dir = TestDirectory::new();
    dir.write("callgate.toml", "this is no configuration");
    let mut command = dir.command(&["bridge"]);
    command.env("CALLGATE_NONSENSE", "1");
    let mut bridge = Bridge::start(command);
    bridge.send("nonsense");
    assert_eq!(bridge.next_message()["error"]["code"], -32700);
    // Another program may listen on the default port, so no request is sent.
    let (code, rest, _) = bridge.close();
    assert_eq!((code, &*rest), (Some(0), ""));
}

#[test]
fn options_in_any_order_form_the_url() {
    let dir = TestDirectory::new();
    let url = |arguments: &str| {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let mut bridge = Bridge::start(dir.command(&arguments));
        let response = bridge.request(1, "tools/call", &json!({}));
        response["error"]["data"]["url"].as_str().unwrap().to_owned()
    };
    let port = fixed_port();
    let v4 = format!("http://127.0.0.1:{port}/rpc/v1/");
    let v6 = format!("http://[::1]:{port}/");
    let cases = [
        (format!("bridge --path /rpc/v1/ --port {port} --host 127.0.0.1"), &v4),
        (format!("bridge --host 127.0.0.1 --port {port} --path rpc/v1/"), &v4),
        (format!("bridge --url {v4}"), &v4),
        (format!("bridge --host ::1 --port {port}"), &v6),
        (format!("bridge --host [::1] --port {port}"), &v6),
    ];
    // Each bridge waits for its server for some seconds.
    std::thread::scope(|scope| {
        for (arguments, expected) in &cases {
            scope.spawn(move || assert_eq!(url(arguments), **expected));
        }
    });
}

#[test]
fn invalid_options_are_refused_without_printing_secrets() {
    let dir = TestDirectory::new();
    for (arguments, code, expected) in [
        (&["--url", "ftp://s3cret/"][..], 1, "expected a URL such as"),
        (&["--url", "http://me:s3cret@localhost/"], 1, "must not contain a user"),
        (&["--header", "s3cret"], 1, "expected `Name: value`"),
        (&["--header", "Mcp-Method: s3cret"], 1, "sets `mcp-method`"),
        (&["--token", "${FESTI_MCP_TOKEN}"], 1, "did not replace"),
        (&["--token", "s3\u{7}cret"], 1, "not allowed in a header"),
        (&["--token-file", "nowhere"], 1, "cannot read `nowhere`"),
        (&["--ca-file", "nowhere"], 1, "`--ca-file nowhere`: "),
        (&["--protocol", "gopher"], 2, "possible values"),
        (&["--url", "http://a/", "--host", "b"], 2, "cannot be used with"),
        (&["--url", "http://localhost:99999/"], 1, "`--url` is not valid: the port must be"),
        (
            &["--url", "http://localhost/#s3cret"],
            1,
            "`--url` is not valid: the URL must not contain a fragment",
        ),
        (&["--host", "localhost/mcp"], 1, "use `--path` for the path"),
        (&["--host", "localhost?s3cret"], 1, "use `--path` for the path"),
        (&["--host", "localhost#s3cret"], 1, "use `--path` for the path"),
        (&["--host", "me:s3cret@localhost"], 1, "must not contain a user or a password"),
        (&["--host", "http://localhost"], 1, "use `--url` for a whole URL"),
        (&["--host", "127.0.0.1:8080"], 1, "use `--port` for the port"),
        (&["--host", "[::1]:8080"], 1, "use `--port` for the port"),
        (&["--host", "localhost:8080"], 1, "use `--port` for the port"),
        (&["--host", ""], 1, "`--host` is not valid"),
        (&["--host", "two words"], 1, "`--host` is not valid"),
        (&["--path", "http://localhost/mcp"], 1, "use `--url` for a whole URL"),
        (
            &["--path", "/mcp#s3cret"],
            1,
            "`--path` is not valid: the URL must not contain a fragment",
        ),
        (&["--port", "0"], 2, "1..=65535"),
        (&["--port", "99999"], 2, "1..=65535"),
        (&["--database", "sqlite:x.db"], 2, "'--database' has no effect on 'bridge'"),
        (&["--config", "x.toml"], 2, "'--config' has no effect on 'bridge'"),
        (&["--preset", "festi"], 2, "'--preset' has no effect on 'bridge'"),
    ] {
        let output = dir.run(&[&["bridge"], arguments].concat());
        let (actual_code, stderr) = output.failure();
        assert_eq!(actual_code, code, "{stderr}");
        assert!(stderr.contains(expected) && !stderr.contains("s3cret"), "{arguments:?}: {stderr}");
    }
}

#[test]
fn the_token_is_read_from_the_environment_a_file_or_the_command_line() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    let token = server.token("admin");
    dir.write("token", &format!("{token}\r\n"));
    let port = server.address().port().to_string();
    let tools = |arguments: &[&str], variable: Option<&str>| {
        let mut command = dir.command(&[&["bridge", "--port", &port], arguments].concat());
        command.envs(variable.map(|token| ("CALLGATE_TOKEN", token)));
        let mut bridge = Bridge::start(command);
        let response = bridge.request(1, "tools/list", &json!({}));
        let (code, _, stderr) = bridge.close();
        assert_eq!(code, Some(0));
        assert!(!stderr.contains(&token), "{stderr}");
        (response["result"]["tools"].as_array().map(Vec::len), stderr)
    };
    let (anonymous, _) = tools(&[], None);
    let (from_variable, variable_stderr) = tools(&[], Some(&token));
    let (from_file, _) = tools(&["--token-file", "token"], Some("another"));
    let (from_option, option_stderr) = tools(&["--token", &token], Some("another"));
    let (from_header, _) = tools(&["--header", &format!("Authorization:Bearer {token}")], None);
    assert!(anonymous < from_variable);
    assert_eq!(
        [from_file, from_option, from_header, tools(&["--token", ""], Some(&token)).0],
        [from_variable; 4]
    );
    assert!(
        option_stderr.contains("other users of this machine can see `--token`"),
        "{option_stderr}"
    );
    assert!(!variable_stderr.contains("--token"), "{variable_stderr}");
}

#[test]
fn a_refused_token_and_a_missing_token_have_different_messages() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo", "--require-auth"]);
    let port = server.address().port().to_string();
    let stderr = |arguments: &[&str], variable: Option<&str>| {
        let mut command = dir.command(&[&["bridge", "--port", &port], arguments].concat());
        command.envs(variable.map(|token| ("CALLGATE_TOKEN", token)));
        let mut bridge = Bridge::start(command);
        assert!(bridge.request(1, "initialize", &json!({})).get("error").is_some());
        let (_, _, stderr) = bridge.close();
        assert_eq!(stderr.matches("answered HTTP 401").count(), 1, "once: {stderr}");
        assert!(!stderr.contains("connected to"), "{stderr}");
        stderr
    };
    assert!(stderr(&[], None).contains("set CALLGATE_TOKEN"));
    let wrong_token = stderr(&[], Some(TOKEN));
    assert!(
        wrong_token.contains("rejected the token (from CALLGATE_TOKEN): it may be"),
        "{wrong_token}"
    );
    assert!(stderr(&["--token", TOKEN], None).contains("(from --token)"));
    let header = stderr(&["--header", "Authorization: Bearer 'x'"], Some(TOKEN));
    assert!(header.contains("(from --header)") && header.contains("has quotes"), "{header}");
    assert!(
        header.contains("other users of this machine can see `--header Authorization`"),
        "{header}"
    );
    for (arguments, variable, expected) in [
        (&[][..], Some(""), "`CALLGATE_TOKEN` is empty: requests are sent without a token"),
        (&["--token", ""], None, "`--token` is empty: requests are sent without a token"),
        (&["--path", "/?key=x"], None, "the query of `--path` is sent with each request"),
    ] {
        let stderr = stderr(arguments, variable);
        assert!(stderr.contains("WARN") && stderr.contains(expected), "{stderr}");
    }
}

#[test]
fn an_empty_list_without_a_token_is_explained() {
    let dir = TestDirectory::migrated();
    let server = dir.serve(&[]);
    let port = server.address().port().to_string();
    let stderr = |token: Option<&str>| {
        let mut command = dir.command(&["bridge", "--port", &port]);
        command.envs(token.map(|token| ("CALLGATE_TOKEN", token)));
        let mut bridge = Bridge::start(command);
        bridge.initialize();
        assert_eq!(bridge.request(2, "tools/list", &json!({}))["result"]["tools"], json!([]));
        bridge.close().2
    };
    let anonymous = stderr(None);
    assert!(
        anonymous.contains("lists no tools for callers without a token: set CALLGATE_TOKEN"),
        "{anonymous}"
    );
    dir.ok(&["user", "add", "ada"]);
    let token = dir.ok(&["token", "add", "ada"]);
    server.wait_until("the token counts", |server| {
        server.get(token.trim(), "/mcp/tools/list").status == 200
    });
    let authenticated = stderr(Some(token.trim()));
    assert!(!authenticated.contains("lists no tools"), "{authenticated}");
}

#[test]
fn a_token_added_to_the_demo_stays_valid_after_a_restart() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    let create = ["token", "add", "admin", "--database", "sqlite:callgate-demo.db"];
    let token = dir.ok(&create).trim().to_owned();
    let expected = server.tools(&server.token("admin")).len();
    drop(server);
    let server = dir.serve(&["--demo"]);
    let port = server.address().port().to_string();
    let mut command = dir.command(&["bridge", "--port", &port]);
    command.env("CALLGATE_TOKEN", token);
    let tools =
        Bridge::start(command).request(1, "tools/list", &json!({}))["result"]["tools"].clone();
    assert_eq!(tools.as_array().unwrap().len(), expected);
    assert!(expected > server.tools("").len());
}

#[test]
fn a_refused_token_is_not_printed() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo", "--require-auth"]);
    let port = server.address().port().to_string();
    let mut command = dir.command(&["bridge", "--port", &port, "--token", TOKEN]);
    command.env("CALLGATE_LOG", "trace");
    let mut bridge = Bridge::start(command);
    let refused = bridge.request(1, "tools/list", &json!({}));
    assert!(refused.get("error").is_some());
    drop(server);
    let unreachable = bridge.request(2, "tools/call", &json!({}));
    let (_, rest, stderr) = bridge.close();
    assert!(stderr.contains("CALLGATE_TOKEN"), "{stderr}");
    assert!(!format!("{refused}{unreachable}{rest}{stderr}").contains(TOKEN));
}

#[test]
fn a_header_option_that_was_split_at_spaces_is_joined() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    let (token, port) = (server.token("admin"), server.address().port().to_string());
    let arguments =
        ["bridge", "--header", "Authorization:", "Bearer", &token, "X-A:b", "--port", &port];
    let mut bridge = Bridge::start(dir.command(&arguments));
    let tools = bridge.request(1, "tools/list", &json!({}))["result"]["tools"].clone();
    assert_eq!(tools.as_array().unwrap().len(), server.tools(&token).len());
}

#[test]
fn requests_to_an_unreachable_server_fail_within_15_seconds() {
    let dir = TestDirectory::new();
    let port = fixed_port().to_string();
    let mut bridge = Bridge::start(dir.command(&["bridge", "--port", &port]));
    let started = Instant::now();
    // Claude Code sends both requests, and gives up after 30 s.
    for (id, method) in [(1, "server/discover"), (2, "initialize")] {
        let error =
            bridge.request(id, method, &json!({"protocolVersion": "2025-06-18"}))["error"].clone();
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("connection refused. Is the server running?"), "{message}");
    }
    let waited = started.elapsed();
    assert!(waited > Duration::from_secs(5) && waited < Duration::from_secs(15), "{waited:?}");
    let (code, rest, stderr) = bridge.close();
    assert_eq!((code, &*rest), (Some(0), ""));
    assert!(stderr.contains("waiting for http://localhost:"), "{stderr}");
}

#[test]
fn the_bridge_connects_to_a_server_that_starts_later_or_restarts() {
    let dir = TestDirectory::new();
    let listen = format!("127.0.0.1:{}", fixed_port());
    let serve = || Server::start(dir.command(&["serve", "--json", "--demo", "--listen", &listen]));
    let port = listen.rsplit(':').next().unwrap();
    let mut bridge = Bridge::start(dir.command(&["bridge", "--port", port]));
    bridge.send(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}"#,
    );
    let server = serve();
    assert_eq!(bridge.next_message()["result"]["serverInfo"]["name"], "callgate");
    bridge.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    bridge.request(1, "tools/list", &json!({}));
    server.signal("-KILL");
    drop(server);
    bridge.send(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#);
    let _server = serve();
    let response = bridge.next_message();
    assert!(response["result"]["tools"].is_array(), "{response}");
}

#[test]
fn the_bridge_exits_with_its_client_even_during_calls() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    let mut bridge = bridge_to_demo(&dir, &server, &[]);
    bridge.initialize();
    let call = json!({"name": "report_yearly", "arguments": {"seconds": 20}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call});
    bridge.send(&call.to_string());
    bridge.request(2, "ping", &json!({}));
    let started = Instant::now();
    let (code, rest, _) = bridge.close();
    assert_eq!(code, Some(0));
    let response: Value = serde_json::from_str(&rest).unwrap();
    assert_eq!(response["id"], 1, "{response}");
    assert!(response["error"]["message"].to_string().contains("the input ended"), "{response}");
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn the_bridge_stops_on_a_signal() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    let mut bridge = bridge_to_demo(&dir, &server, &[]);
    bridge.initialize();
    let id = bridge.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    // The bridge exits although its standard input is still open.
    assert_eq!(bridge.child.wait().unwrap().code(), Some(0));
}

#[cfg(unix)]
#[test]
fn the_bridge_exits_with_its_parent_process_even_if_its_input_stays_open() {
    let dir = TestDirectory::new();
    let status = Command::new("mkfifo").arg(dir.path("input")).status().unwrap();
    assert!(status.success());
    let script = "\"$0\" bridge <input >output & echo $!; read line";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_callgate")]).current_dir(dir.path(""));
    let mut shell = Bridge::start(shell);
    let process = shell.next_message().to_string();
    let mut input = std::fs::OpenOptions::new().write(true).open(dir.path("input")).unwrap();
    writeln!(input, "nonsense").unwrap();
    wait_until("it runs", || {
        std::fs::read_to_string(dir.path("output")).is_ok_and(|text| text.contains("-32700"))
    });
    assert!(is_running(&process));
    drop(shell);
    wait_until("it is gone", || !is_running(&process));
    drop(input);
}

#[test]
fn https_works_with_a_private_certificate_authority() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    let reverse_proxy = ReverseProxy::with_tls(server.address());
    dir.write("ca.pem", reverse_proxy.authority.as_deref().unwrap());
    let port = reverse_proxy.port().to_string();
    let arguments = ["bridge", "--protocol", "https", "--port", &port, "--path", "/mcp"];
    let mut bridge =
        Bridge::start(dir.command(&[&arguments[..], &["--ca-file", "ca.pem"]].concat()));
    assert_eq!(bridge.initialize()["result"]["serverInfo"]["name"], "callgate");
    let mut bridge_without_ca = Bridge::start(dir.command(&arguments));
    let refused =
        bridge_without_ca.request(1, "initialize", &json!({}))["error"]["message"].to_string();
    assert!(refused.contains("--ca-file"), "{refused}");
}
