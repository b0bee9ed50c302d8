//! The configurations in `docs/start/clients.md`, each as a client would run it.

use std::path::Path;

use serde_json::{Value, json};

use super::bridge::Bridge;
use super::reverse_proxy::ReverseProxy;
use super::support::{Server, TestDirectory};

/// Values of this test for the placeholders in the guide.
struct Fixture {
    dir: TestDirectory,
    server: Server,
    token: String,
    tls_proxy: ReverseProxy,
    path_proxy: ReverseProxy,
}

impl Fixture {
    fn new() -> Self {
        let dir = TestDirectory::new();
        let server = dir.serve(&["--demo"]);
        let tls_proxy = ReverseProxy::with_tls(server.address());
        dir.write("ca.pem", tls_proxy.authority.as_deref().unwrap());
        let path_proxy = ReverseProxy::at_path(server.address(), "/rpc/v1/");
        Self { token: server.token("reader"), dir, server, tls_proxy, path_proxy }
    }

    /// Returns the arguments with the hosts, ports and files of this test.
    fn arguments(&self, documented: &[String]) -> Vec<String> {
        let contains = |text: &str| documented.iter().any(|argument| argument.contains(text));
        let port = match () {
            () if contains("https") => self.tls_proxy.port(),
            () if contains("/rpc/v1/") => self.path_proxy.port(),
            () => self.server.address().port(),
        };
        let mut arguments: Vec<String> = Vec::new();
        for argument in documented {
            let previous = arguments.last().map(String::as_str).unwrap_or_default();
            arguments.push(match (previous, argument.as_str()) {
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
        if !contains("--url") && !contains("--port") {
            arguments.extend(["--port".to_owned(), port.to_string()]);
        }
        if contains("https") && !contains("--ca-file") {
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
        let documented: Vec<String> = serde_json::from_value(entry["args"].clone()).unwrap();
        let arguments = self.arguments(&documented);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut command = self.dir.command(&arguments);
        for (name, value) in entry["env"].as_object().into_iter().flatten() {
            // Replaces the placeholders that the reader, or the client, fills in.
            assert!(["cg_your_token", "${FESTI_MCP_TOKEN}"].contains(&value.as_str().unwrap()));
            command.env(name, &self.token);
        }
        let mut bridge = Bridge::start(command);
        bridge.initialize();
        let response = bridge.request(1, "tools/list", &json!({}));
        let (code, rest, _) = bridge.close();
        assert_eq!((code, &*rest), (Some(0), ""));
        response["result"]["tools"].as_array().unwrap_or_else(|| panic!("{response}")).len()
    }
}

#[test]
fn every_configuration_of_the_guide_works() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/start/clients.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let blocks: Vec<&str> =
        guide.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    let fixture = Fixture::new();
    let (anonymous, reader) =
        (fixture.server.tools("").len(), fixture.server.tools(&fixture.token).len());
    assert!(anonymous < reader);
    for block in &blocks {
        let configuration: Value = serde_json::from_str(block).unwrap();
        for (name, entry) in configuration["mcpServers"].as_object().unwrap() {
            let expected = if entry.get("env").is_some() { reader } else { anonymous };
            assert_eq!(fixture.tools(entry), expected, "{name}: {block}");
        }
    }
    // One configuration each: local, with a port, remote, with a path, with a variable, with
    // headers, for Windows. Three configurations: with HTTPS.
    assert_eq!(blocks.len(), 10);
}
