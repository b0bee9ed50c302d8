//! The JavaScript clients, installed in the directory of the build.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const FILES: [&str; 3] = ["client.mjs", "everything.mjs", "loopback.cjs"];

/// Returns the script that controls a client.
pub(crate) fn client(name: &str) -> Command {
    let mut command = node();
    command.arg(directory().join("client.mjs")).args(["--client", name]);
    command
}

/// Returns the script that controls a client of a server with all features.
pub(crate) fn everything_client(name: &str, server: &str) -> Command {
    let mut command = node();
    let arguments = ["--client", name, "--server", server];
    command.arg(directory().join("everything.mjs")).args(arguments);
    command
}

/// Returns the reference server with all features, over HTTP.
pub(crate) fn everything_server() -> Command {
    let mut command = node();
    let script = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    command.arg("-r").arg(directory().join("loopback.cjs")).arg(directory().join(script));
    command.arg("streamableHttp");
    command
}

/// Returns the command of the MCP Inspector.
pub(crate) fn inspector() -> Command {
    let mut command = node();
    let script = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js";
    command.arg(directory().join(script));
    command
}

/// Returns the command of the conformance suite.
pub(crate) fn conformance() -> Command {
    let mut command = node();
    let script = "node_modules/@modelcontextprotocol/conformance/dist/index.js";
    command.arg(directory().join(script));
    command
}

/// Returns the Node of the npm packages, because some packages need a newer version than many systems have.
fn node() -> Command {
    Command::new(directory().join("node_modules/node/bin/node"))
}

/// Returns the directory of the npm packages. The packages are installed once.
fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
        callgate_test_support::npm(Path::new(env!("CARGO_TARGET_TMPDIR")), &source, &FILES)
    })
}
