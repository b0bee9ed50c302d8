//! The configurations in `docs/start/clients.md`, each as a client would run it.

use std::path::Path;

use serde_json::{Value, json};

use super::bridge::Bridge;
use super::front::Front;
use super::support::{Server, TestDirectory};

/// Values of this test for the placeholders in the guide.
struct World {
    dir: TestDirectory,
    server: Server,
    token: String,
    secure: Front,
    festi: Front,
}

impl World {
    fn new() -> Self {
        let dir = TestDirectory::new();
        let server = dir.serve(&["--demo"]);
        let secure = Front::secure(server.address());
        dir.write("ca.pem", secure.authority.as_deref().unwrap());
        let festi = Front::at(server.address(), "/rpc/v1/");
        Self { token: server.token("reader"), dir, server, secure, festi }
    }

    /// Returns the arguments with the hosts, ports and files of this test.
    fn arguments(&self, written: &[String]) -> Vec<String> {
        let has = |text: &str| written.iter().any(|argument| argument.contains(text));
        let port = match () {
            () if has("https") => self.secure.port(),
            () if has("/rpc/v1/") => self.festi.port(),
            () => self.server.address().port(),
        };
        let mut arguments: Vec<String> = Vec::new();
        for argument in written {
            let before = arguments.last().map(String::as_str).unwrap_or_default();
            arguments.push(match (before, argument.as_str()) {
                ("--port", _) => port.to_string(),
                ("--host", _) => "localhost".to_owned(),
                ("--ca-file", _) => "ca.pem".to_owned(),
                ("--url", url) => {
                    let (_, path) = url.trim_start_matches("https://").split_once('/').unwrap();
                    format!("https://localhost:{port}/{path}")
                }
                (_, argument) => argument.to_owned(),
            });
        }
        if !has("--url") && !has("--port") {
            arguments.extend(["--port".to_owned(), port.to_string()]);
        }
        if has("https") && !has("--ca-file") {
            // Public certificate authorities have not signed the certificate of this test.
            arguments.extend(["--ca-file".to_owned(), "ca.pem".to_owned()]);
        }
        arguments
    }

    /// Returns the number of tools that a client sees with this entry of a configuration.
    fn tools(&self, entry: &Value) -> usize {
        let command = entry["command"].as_str().unwrap();
        let program = command.rsplit(['/', '\\']).next().unwrap();
        assert!(matches!(program, "callgate" | "callgate.exe"), "{command}");
        let written: Vec<String> = serde_json::from_value(entry["args"].clone()).unwrap();
        let arguments = self.arguments(&written);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut command = self.dir.command(&arguments);
        for (name, value) in entry["env"].as_object().into_iter().flatten() {
            // Replaces the placeholders that the reader, or the client, fills in.
            assert!(["cg_your_token", "${FESTI_MCP_TOKEN}"].contains(&value.as_str().unwrap()));
            command.env(name, &self.token);
        }
        let mut bridge = Bridge::start(command);
        bridge.initialize();
        let answer = bridge.ask(1, "tools/list", &json!({}));
        let (code, rest, _) = bridge.leave();
        assert_eq!((code, &*rest), (Some(0), ""));
        answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}")).len()
    }
}

#[test]
fn every_configuration_of_the_guide_works() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/start/clients.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let blocks: Vec<&str> =
        guide.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    let world = World::new();
    let (anonymous, reader) =
        (world.server.tools("").len(), world.server.tools(&world.token).len());
    assert!(anonymous < reader);
    for block in &blocks {
        let configuration: Value = serde_json::from_str(block).unwrap();
        for (name, entry) in configuration["mcpServers"].as_object().unwrap() {
            let expected = if entry.get("env").is_some() { reader } else { anonymous };
            assert_eq!(world.tools(entry), expected, "{name}: {block}");
        }
    }
    // One configuration each: local, with a port, remote, with a path, with a variable, with
    // headers, for Windows. Three configurations: with HTTPS.
    assert_eq!(blocks.len(), 10);
}
