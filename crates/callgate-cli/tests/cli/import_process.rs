//! The process that a server starts for each repeated import. A malicious source affects only this process, not the
//! server.
#![cfg(target_os = "linux")]

use std::fmt::Write as _;
use std::io::Read as _;
use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::{Server, TestDirectory};

/// Returns a directory with an import of `source` every second, and a method that was imported before.
fn dir(source: &str, policy: &str) -> TestDirectory {
    let dir = TestDirectory::new();
    let method = |name: &str| json!({"name": name, "params": [], "result": {"name": "result", "schema": {}}});
    let document =
        json!({"openrpc": "1.3.2", "info": {"title": "Pets"}, "methods": [method("pet.get")]});
    dir.write("known.json", &document.to_string());
    dir.ok(&["migrate"]);
    dir.ok(&["import", "openrpc", "known.json"]);
    let arguments = json!(["openrpc", source]);
    dir.write(
        "callgate.toml",
        &format!(
            "[imports.pets]\narguments = {arguments}\nevery_seconds = 1\npolicy = \"{policy}\"\n"
        ),
    );
    dir
}

/// Returns the ids of the processes that a process has started.
fn children(id: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).unwrap();
    let of_task = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children"));
    let lists: Vec<String> = tasks.map(|task| of_task(task.unwrap()).unwrap_or_default()).collect();
    lists.join(" ").split_whitespace().map(|id| id.parse().unwrap()).collect()
}

fn is_running(id: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    !status.is_empty() && !status.contains(") Z ")
}

fn stop_and_read_log(server: Server) -> String {
    server.stop().1
}

#[test]
fn a_source_that_exhausts_memory_ends_the_import_process_and_not_the_server() {
    let dir = dir("pets.json", "apply");
    // Each `{}` with its comma has three bytes in the document. As a value in memory, it has more
    // than 70 bytes.
    let mut text = "{\"openrpc\": \"1.3.2\", \"methods\": [".to_owned();
    text.push_str(&"{},".repeat(20_000_000));
    text.push_str("{}]}");
    dir.write("pets.json", &text);
    let mut server = dir.serve(&[]);
    let log = server.wait_for_log("import `pets` failed, methods are unchanged");
    assert!(log.contains("the process of the import ended with signal: 6"), "{log}");
    assert_eq!(server.tools(""), ["pet.get"]);
    stop_and_read_log(server);
}

#[test]
fn a_killed_import_process_is_logged_and_a_waiting_process_ends_with_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let dir = dir(&format!("http://{}/", listener.local_addr().unwrap()), "apply");
    let mut server = dir.serve(&[]);
    // The service accepts the connection and never answers.
    let mut waiting = listener.accept().unwrap().0;
    let [child] = children(server.id())[..] else { panic!("{:?}", children(server.id())) };
    let arguments = std::fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap();
    assert_eq!(arguments.split('\0').skip(1).collect::<Vec<_>>(), ["import", "process", ""]);
    assert!(Command::new("kill").args(["-KILL", &child.to_string()]).status().unwrap().success());
    let log = server.wait_for_log("import `pets` failed, methods are unchanged");
    assert!(log.contains("the process of the import ended with signal: 9"), "{log}");
    assert_eq!(server.tools(""), ["pet.get"]);
    let _ = waiting.read(&mut [0; 1024]);
    let _second = listener.accept().unwrap().0;
    let [child] = children(server.id())[..] else { panic!("{:?}", children(server.id())) };
    stop_and_read_log(server);
    let started = Instant::now();
    while is_running(child) {
        assert!(started.elapsed() < Duration::from_secs(30), "the process is still running");
    }
}

#[test]
fn a_change_that_is_too_long_to_display_cannot_be_approved() {
    let dir = dir("pets.json", "hold");
    let method = |n: usize| {
        let description = "a".repeat(3_000_000);
        json!({"name": format!("m{n}"), "description": description, "params": [],
               "result": {"name": "result", "schema": {}}})
    };
    let methods: Vec<Value> = (0..2).map(method).collect();
    let document = json!({"openrpc": "1.3.2", "info": {"title": "Pets"}, "methods": methods});
    dir.write("pets.json", &document.to_string());
    let mut server = dir.serve(&[]);
    let log = server.wait_for_log("import `pets` failed, methods are unchanged");
    assert!(log.contains("more than the 4194304 that can be approved"), "{log}");
    let (code, stderr) = dir.run(&["import", "approve", "pets", "0"]).failure();
    assert_eq!(code, 1);
    assert!(stderr.contains("has no pending changes"), "{stderr}");
    assert_eq!(server.tools(""), ["pet.get"]);
    stop_and_read_log(server);
}

#[test]
fn invisible_characters_are_escaped_in_every_report() {
    let dir = dir("pets.json", "hold");
    let hidden: String =
        "ignore".chars().map(|c| char::from_u32(0xe0000 + c as u32).unwrap()).collect();
    let text = format!("A pet.{hidden}\u{202e}");
    let method = json!({
        "name": "pet.\u{200b}list",
        "description": text,
        "params": [{"name": "kind", "schema": {"enum": [text]}}],
        "result": {"name": "result", "schema": {}},
    });
    let document = json!({"openrpc": "1.3.2", "info": {"title": text}, "methods": [method]});
    dir.write("pets.json", &document.to_string());
    let mut outputs = String::new();
    for arguments in [
        &["import", "openrpc", "pets.json", "--dry-run"] as &[&str],
        &["import", "openrpc", "pets.json"],
        &["method", "list"],
        &["method", "list", "--json"],
        &["method", "show", "pet.\u{200b}list"],
        &["method", "show", "pet.\u{200b}list", "--json"],
        &["lint"],
        &["lint", "--json"],
    ] {
        let output = dir.run(arguments);
        write!(outputs, "{}{}", output.stdout(), output.stderr()).unwrap();
    }
    dir.sql("callgate.db", "DELETE FROM callgate_imports; DELETE FROM rpc_methods");
    let server = dir.serve(&[]);
    server.wait_until("it waits", |_| dir.ok(&["import", "pending"]).contains("pet."));
    outputs.push_str(&dir.ok(&["import", "pending"]));
    let json = dir.ok(&["import", "pending", "--json"]);
    let pending: Value = serde_json::from_str(&json).unwrap();
    outputs.push_str(&json);
    outputs.push_str(&dir.ok(&["import", "approve", "pets", pending["digest"].as_str().unwrap()]));
    let log = stop_and_read_log(server);
    assert!(log.contains(r"A pet.\u{e0069}"), "{log}");
    outputs.push_str(&log);
    assert!(outputs.contains(r"pet.\u{200b}list"), "{outputs}");
    assert!(outputs.contains(r"\u{e0069}"), "{outputs}");
    assert!(outputs.contains("invisible-character"), "{outputs}");
    for c in ['\u{200b}', '\u{202e}', '\u{e0069}'] {
        let line = outputs.lines().find(|line| line.contains(c));
        assert_eq!(line.map(|line| line.escape_unicode().to_string()), None);
    }
    assert_eq!(dir.run(&["lint"]).0.status.code(), Some(1));
}
