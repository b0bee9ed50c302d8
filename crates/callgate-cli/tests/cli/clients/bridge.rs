//! Real clients over stdio, with the bridge between them and two servers: Callgate and the protocol's reference server.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::everything::{Everything, fixed_port};

use super::{ClientRun, Demo, LEGACY, MODERN, node, over_stdio_with_arguments, run_with_steps};
use crate::bridge::is_running;

/// Duration that is longer than a gap which the bridge treats as a scheduling delay.
const SHORT_SUSPENSION: Duration = Duration::from_secs(6);
/// Duration after which servers and systems have closed idle connections.
const LONG_SUSPENSION: Duration = Duration::from_mins(1);

fn over_bridge(client: &str, protocol: &str, demo: &Demo) {
    let port = demo.server.address().port();
    over_stdio_with_arguments(client, protocol, demo, &format!("bridge --port {port} --path /mcp"));
}

#[test]
fn typescript_sdk_1_works_over_the_bridge() {
    over_bridge("sdk1", LEGACY, &Demo::new());
}

#[test]
fn typescript_client_2_default_works_over_the_bridge() {
    over_bridge("client2-default", LEGACY, &Demo::new());
}

#[test]
fn typescript_client_2_auto_works_over_the_bridge() {
    over_bridge("client2-auto", MODERN, &Demo::new());
}

#[test]
fn typescript_client_2_pinned_works_over_the_bridge() {
    over_bridge("client2-pinned", MODERN, &Demo::new());
}

#[test]
fn a_client_of_both_eras_falls_back_to_an_older_revision_over_the_bridge() {
    over_bridge("client2-auto", "2025-06-18", &Demo::up_to("2025-06-18"));
}

fn signal(name: &str, process: &Value) {
    let status = Command::new("kill").args([name, &process.to_string()]).status().unwrap();
    assert!(status.success());
}

/// Runs all actions of a client. Meanwhile the server starts late, is killed and restarted, and the bridge is suspended
/// and resumed. Returns the output of the client and of the bridge.
fn run_everything_client(
    client_name: &str,
    server: &str,
    starts_late: bool,
) -> (ClientRun, String) {
    let start = match server {
        "npm" => Everything::reference,
        _ => {
            Everything::build_example();
            Everything::example
        }
    };
    let port = fixed_port();
    let mut command = node::everything_client(client_name, server);
    command.arg(env!("CARGO_BIN_EXE_callgate"));
    command.args(["bridge", "--port", &port.to_string(), "--path", "/mcp"]);
    command.env("CALLGATE_LOG", "info");
    let mut server = None;
    let mut process = Value::Null;
    let (run, stderr) =
        run_with_steps(command, |step, client| match step["step"].as_str().unwrap() {
            "connecting" => {
                if starts_late {
                    client.wait_for_stderr("waiting for");
                }
                server = Some(start(port));
            }
            "connect" => process = step["pid"].clone(),
            "ready_for_restart" => {
                drop(server.take());
                server = Some(start(port));
                client.resume();
            }
            "ready_for_sleep" => {
                signal("-STOP", &process);
                // The test needs time to pass.
                std::thread::sleep(if client_name == "sdk1" {
                    LONG_SUSPENSION
                } else {
                    SHORT_SUSPENSION
                });
                signal("-CONT", &process);
                client.resume();
            }
            _ => {}
        });
    run.step("closed");
    assert!(!is_running(&process.to_string()), "it goes with its client");
    for message in ["connected to", "system was suspended"] {
        assert!(stderr.contains(message), "{message}: {stderr}");
    }
    (run, stderr)
}

fn with_reference_server(client: &str) {
    let (run, stderr) = run_everything_client(client, "npm", true);
    assert_eq!(run.step("connect")["server"]["name"], "mcp-servers/everything");
    let tools = run.step("list")["tools"].as_array().unwrap();
    assert!(tools.contains(&json!("trigger-elicitation-request")), "{tools:?}");
    assert_eq!(run.step("call")["text"], "Echo: one");
    // Some clients drop the last message if it arrives together with the reply.
    let progress = run.step("progress")["progress"].as_array().unwrap();
    assert!(progress.starts_with(&[json!(1), json!(2), json!(3)]), "{progress:?}");
    let cancel = run.step("cancel");
    assert_eq!((&cancel["outcome"], &cancel["alive"]), (&json!("rejected"), &json!("Echo: two")));
    assert!(run.step("elicitation")["text"].as_str().unwrap().contains("Name: Ada"));
    assert_eq!(run.step("restarted")["text"], "Echo: three");
    assert_eq!(run.step("awake")["text"], "Echo: four");
    assert!(stderr.contains("the server lost the old one"), "{stderr}");
}

fn with_example_server(client: &str, protocol: &str) {
    // If a modern server replies too late, some clients treat the server as legacy. A client that
    // knows the era sends nothing before its first request.
    let (run, stderr) = run_everything_client(client, "ours", protocol == LEGACY);
    let tools = run.step("list")["tools"].as_array().unwrap();
    assert!(tools.contains(&json!("test_elicitation")), "{tools:?}");
    assert_eq!(run.step("call")["text"], "Hello, one!");
    let progress = run.step("progress")["progress"].as_array().unwrap();
    assert!(progress.starts_with(&[json!(0), json!(50)]), "{progress:?}");
    let cancel = run.step("cancel");
    assert_eq!((&cancel["outcome"], &cancel["alive"]), (&json!("rejected"), &json!("Hello, two!")));
    let text = run.step("elicitation")["text"].as_str().unwrap();
    assert!(text.contains(r#""username":"Ada""#), "{text}");
    assert_eq!(run.step("restarted")["text"], "Hello, three!");
    assert_eq!(run.step("awake")["text"], "Hello, four!");
    assert_eq!(stderr.contains("the server lost the old one"), protocol == LEGACY, "{stderr}");
}

#[test]
fn typescript_sdk_1_works_with_the_everything_example() {
    with_example_server("sdk1", LEGACY);
}

#[test]
fn typescript_client_2_default_works_with_the_everything_example() {
    with_example_server("client2-default", LEGACY);
}

#[test]
fn typescript_client_2_auto_works_with_the_everything_example() {
    with_example_server("client2-auto", MODERN);
}

#[test]
fn typescript_client_2_pinned_works_with_the_everything_example() {
    with_example_server("client2-pinned", MODERN);
}

#[test]
fn typescript_sdk_1_works_with_the_reference_server() {
    with_reference_server("sdk1");
}

#[test]
fn typescript_client_2_default_works_with_the_reference_server() {
    with_reference_server("client2-default");
}

#[test]
fn typescript_client_2_auto_works_with_the_reference_server() {
    with_reference_server("client2-auto");
}
