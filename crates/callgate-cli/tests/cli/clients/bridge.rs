//! Real clients over stdio with the bridge between them and two servers: ours, and the protocol's own
//! reference server.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::everything::{Everything, fixed_port};
use super::{Demo, LEGACY, MODERN, drive, node, over_lines};
use crate::bridge::is_running;

/// Longer than the bridge takes for a delay.
const SLEEP: Duration = Duration::from_secs(6);

fn over_bridge(client: &str, protocol: &str, demo: &Demo) {
    let port = demo.server.address().port();
    over_lines(client, protocol, demo, &format!("bridge --port {port} --path /mcp"));
}

#[test]
fn b66_typescript_sdk_1_over_the_bridge() {
    over_bridge("sdk1", LEGACY, &Demo::new());
}

#[test]
fn b66_typescript_client_2_default_over_the_bridge() {
    over_bridge("client2-default", LEGACY, &Demo::new());
}

#[test]
fn b66_typescript_client_2_auto_over_the_bridge() {
    over_bridge("client2-auto", MODERN, &Demo::new());
}

#[test]
fn b66_typescript_client_2_pinned_over_the_bridge() {
    over_bridge("client2-pinned", MODERN, &Demo::new());
}

#[test]
fn d38_a_client_of_both_eras_falls_back_over_the_bridge() {
    over_bridge("client2-auto", "2025-06-18", &Demo::up_to("2025-06-18"));
}

fn signal(name: &str, process: &Value) {
    let status = Command::new("kill").args([name, &process.to_string()]).status().unwrap();
    assert!(status.success());
}

/// All that a client does with everything, while the server comes late, is killed and comes back, and
/// the bridge is stopped and goes on.
fn everything(client: &str) {
    let port = fixed_port();
    let mut command = node::everything_client(client);
    command.arg(env!("CARGO_BIN_EXE_callgate"));
    command.args(["bridge", "--port", &port.to_string(), "--path", "/mcp"]);
    let mut server = None;
    let mut process = Value::Null;
    let (run, talk) = drive(command, |step, client| match step["step"].as_str().unwrap() {
        "connecting" => {
            client.until_it_says("waiting for");
            server = Some(Everything::start(port));
        }
        "connect" => process = step["pid"].clone(),
        "ready_for_restart" => {
            drop(server.take());
            server = Some(Everything::start(port));
            client.go_on();
        }
        "ready_for_sleep" => {
            signal("-STOP", &process);
            // What is tried is that time passes.
            std::thread::sleep(SLEEP);
            signal("-CONT", &process);
            client.go_on();
        }
        _ => {}
    });
    assert_eq!(run.step("connect")["server"]["name"], "mcp-servers/everything");
    let tools = run.step("list")["tools"].as_array().unwrap();
    assert!(tools.contains(&json!("trigger-elicitation-request")), "{tools:?}");
    assert_eq!(run.step("call")["text"], "Echo: one");
    // The last may come together with the answer, and then some clients drop it.
    let progress = run.step("progress")["progress"].as_array().unwrap();
    assert!(progress.starts_with(&[json!(1), json!(2), json!(3)]), "{progress:?}");
    let cancel = run.step("cancel");
    assert_eq!((&cancel["outcome"], &cancel["alive"]), (&json!("rejected"), &json!("Echo: two")));
    assert!(run.step("elicitation")["text"].as_str().unwrap().contains("Name: Ada"));
    assert_eq!(run.step("restarted")["text"], "Echo: three");
    assert_eq!(run.step("awake")["text"], "Echo: four");
    run.step("closed");
    assert!(!is_running(&process.to_string()), "it goes with its client");
    for words in ["connected to", "the session was lost", "time has passed"] {
        assert!(talk.contains(words), "{words}: {talk}");
    }
}

#[test]
fn users_7_16_18_b66_typescript_sdk_1_with_everything() {
    everything("sdk1");
}

#[test]
fn users_7_16_18_b66_typescript_client_2_default_with_everything() {
    everything("client2-default");
}

#[test]
fn users_7_16_18_b66_typescript_client_2_auto_with_everything() {
    everything("client2-auto");
}
