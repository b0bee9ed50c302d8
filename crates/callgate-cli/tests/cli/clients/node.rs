//! The JavaScript clients, installed where the build's files are.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const FILES: [&str; 3] = ["client.mjs", "everything.mjs", "loopback.cjs"];

/// The script that drives a client.
pub(crate) fn client(name: &str) -> Command {
    let mut command = node();
    command.arg(directory().join("client.mjs")).args(["--client", name]);
    command
}

/// The script that drives a client of a server with everything.
pub(crate) fn everything_client(name: &str, server: &str) -> Command {
    let mut command = node();
    let arguments = ["--client", name, "--server", server];
    command.arg(directory().join("everything.mjs")).args(arguments);
    command
}

/// The reference server with everything in it, over HTTP.
pub(crate) fn everything_server() -> Command {
    let mut command = node();
    let script = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    command.arg("-r").arg(directory().join("loopback.cjs")).arg(directory().join(script));
    command.arg("streamableHttp");
    command
}

/// The MCP Inspector's command line.
pub(crate) fn inspector() -> Command {
    let mut command = node();
    let script = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js";
    command.arg(directory().join(script));
    command
}

/// The conformance suite's command line.
pub(crate) fn conformance() -> Command {
    let mut command = node();
    let script = "node_modules/@modelcontextprotocol/conformance/dist/index.js";
    command.arg(directory().join(script));
    command
}

/// The Node that the packages bring, since some of them need a newer one than many machines have.
fn node() -> Command {
    Command::new(directory().join("node_modules/node/bin/node"))
}

/// Installed once.
fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
        callgate_test_support::npm(Path::new(env!("CARGO_TARGET_TMPDIR")), &source, &FILES)
    })
}
