//! Frameworks that convert tools to their own types, and lose tools whose schemas they do not understand.
//!
//! The server has a tool for each type of the notation, and the tools of two imported documents.

use std::path::Path;
use std::process::Command;

use callgate_test_support::{npm, python};
use serde_json::{Value, json};

use crate::real::servers::ethereum_document;
use crate::support::{Server, TestDirectory};

const TMP: &str = env!("CARGO_TARGET_TMPDIR");

/// All kinds of types that a parameter can have.
const TYPES: [&str; 30] = [
    "int",
    "?int",
    "int<0, 10>",
    "?int<0, 10>",
    "float",
    "?float",
    "string",
    "?string",
    "bool",
    "?bool",
    "null",
    "mixed",
    "?mixed",
    "object",
    "?object",
    "array",
    "?array",
    "'asc'|'desc'",
    "?('asc'|'desc')",
    "int|'auto'",
    "string|'auto'",
    "int|string",
    "int|string|null",
    "int|float",
    "?int[]",
    "list<?string>",
    "array<string, ?int>",
    "array{int, ?string}",
    "array{id: int, name?: ?string, tags: ?string[]}",
    "\\Acme\\Unknown|null",
];

/// Returns a document with schemas as other languages generate them: lists with one type, unions, and values of any
/// type.
fn foreign_document() -> Value {
    let schemas = [
        json!({"type": ["string"]}),
        json!({"type": ["array"], "items": [{"type": ["string"]}]}),
        json!({"type": ["object", "null"], "properties": {"a": {"type": ["integer", "null"]}}}),
        json!({"type": ["string", "number", "null"], "minLength": 1, "maximum": 5}),
        json!({}),
        json!({"description": "Anything."}),
        json!({"enum": ["a", "b", null]}),
        json!({"enum": [1, 2]}),
        json!({"const": "fixed"}),
        json!({"oneOf": [{"type": ["string", "null"]}, {"type": "integer"}]}),
        json!({"anyOf": [{"$ref": "#/components/schemas/Block"}, {"type": "null"}]}),
        json!({"oneOf": [{"title": "None", "type": "null"}, {"title": "Any", "type": ["string", "array"]}]}),
        json!({"type": "array", "items": {"type": ["string", "null"]}}),
        json!({"type": "object", "additionalProperties": {"type": ["string", "null"]}}),
        json!({"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        json!({"allOf": [{"type": "object", "properties": {"a": {"type": ["integer", "null"]}}}]}),
    ];
    let method = |(number, schema): (usize, Value)| {
        let params = json!([{"name": "value", "required": number % 2 == 0, "schema": schema}]);
        json!({"name": format!("foreign.t{number}"), "params": params,
            "result": {"name": "result", "schema": {"type": ["string", "null"]}}})
    };
    let block = json!({"type": "object", "properties": {
        "hash": {"type": ["string"]}, "parent": {"type": ["string", "null"]},
    }});
    json!({
        "openrpc": "1.2.6",
        "info": {"title": "Foreign", "version": "1"},
        "methods": schemas.into_iter().enumerate().map(method).collect::<Vec<_>>(),
        "components": {"schemas": {"Block": block}},
    })
}

/// A server with all these tools, and a token.
struct ToolServer {
    _dir: TestDirectory,
    server: Server,
    token: String,
}

impl ToolServer {
    fn new() -> Self {
        let dir = TestDirectory::migrated();
        for (number, ty) in TYPES.iter().enumerate() {
            let (id, param) = (format!("types.t{number}"), format!("{ty} $value"));
            dir.ok(&["method", "add", &id, "--read-only", "--description", ty, "--param", &param]);
        }
        dir.write("foreign.json", &foreign_document().to_string());
        let (ethereum, _) = ethereum_document();
        for document in ["foreign.json", ethereum.to_str().unwrap()] {
            dir.ok(&["import", "openrpc", document]);
        }
        dir.ok(&["user", "add", "ada"]);
        let token = dir.ok(&["token", "add", "ada"]).trim().to_owned();
        Self { server: dir.serve(&[]), _dir: dir, token }
    }

    /// Loads the tools with the command, and checks that none is missing.
    fn check(&self, mut command: Command) {
        let url = format!("http://{}/mcp", self.server.address());
        let output = command.arg(url).env("CALLGATE_TOKEN", &self.token).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {stderr}");
        let loaded: Value = serde_json::from_slice(&output.stdout).unwrap();
        let loaded = loaded.as_object().unwrap();
        let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        let served = self.server.request("POST /mcp", &self.token, list).json();
        let served = served["result"]["tools"].as_array().unwrap();
        let names = served.iter().map(|tool| tool["name"].as_str().unwrap());
        let missing: Vec<&str> = names.filter(|name| !loaded.contains_key(*name)).collect();
        assert!(missing.is_empty(), "{missing:?} of {} are missing: {stderr}", served.len());
        eprintln!("{} tools", loaded.len());
        // For `?int`, a framework that uses only one of the two types would not let the model omit the parameter.
        let value = loaded["types_t1"]["properties"]["value"].to_string();
        assert!(value.contains("integer") && value.contains("null"), "{value}");
    }
}

fn python_framework(name: &str, packages: &[&str]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frameworks/load.py");
    let mut command = Command::new(python(Path::new(TMP), name, packages));
    command.arg(script).arg(name);
    ToolServer::new().check(command);
}

#[test]
#[ignore = "installs packages; `cargo xtask test clients` runs it"]
fn autogen_loads_every_tool() {
    python_framework(
        "autogen",
        &["autogen-agentchat==0.7.5", "autogen-ext[mcp]==0.7.5", "mcp==1.30.0"],
    );
}

#[test]
#[ignore = "installs packages; `cargo xtask test clients` runs it"]
fn semantic_kernel_loads_every_tool() {
    python_framework("semantic_kernel", &["semantic-kernel[mcp]==1.45.0"]);
}

#[test]
#[ignore = "installs packages; `cargo xtask test clients` runs it"]
fn openai_agents_loads_every_tool() {
    python_framework("openai_agents", &["openai-agents==0.24.0", "mcp==2.3.0"]);
}

#[test]
#[ignore = "installs packages; `cargo xtask test clients` runs it"]
fn pydantic_ai_loads_every_tool() {
    python_framework("pydantic_ai", &["pydantic-ai-slim[mcp]==2.66.0", "mcp==2.3.0"]);
}

#[test]
#[ignore = "installs packages; `cargo xtask test clients` runs it"]
fn langchain_loads_every_tool() {
    python_framework("langchain", &["langchain-mcp-adapters==0.3.2", "langchain-core==1.7.2"]);
}

#[test]
#[ignore = "installs packages; `cargo xtask test clients` runs it"]
fn llama_index_loads_every_tool() {
    let packages = ["llama-index-tools-mcp==0.6.0", "llama-index-core==0.14.25", "mcp==2.3.0"];
    python_framework("llama_index", &packages);
}

#[test]
#[ignore = "installs packages; `cargo xtask test clients` runs it"]
fn dspy_loads_every_tool() {
    python_framework("dspy", &["dspy==3.4.1", "mcp==1.30.0"]);
}

#[test]
#[ignore = "installs packages; `cargo xtask test clients` runs it"]
fn ai_sdk_loads_every_tool() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frameworks");
    let directory = npm(Path::new(TMP), &source, &["load.mjs"]);
    let mut command = Command::new("node");
    command.arg(directory.join("load.mjs"));
    ToolServer::new().check(command);
}
