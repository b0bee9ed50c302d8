//! The configuration that `serve --demo` and `try` print for clients.

use anyhow::{Context as _, Result};
use serde_json::json;

use crate::config::TOKEN_VARIABLE;

/// Returns the configuration for clients that start programs, such as Claude Desktop.
pub(super) fn client_configuration(name: &str, url: &str, token: Option<&str>) -> Result<String> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let mut server = json!({"command": program, "args": ["bridge", "--url", format!("{url}/mcp")]});
    if let (Some(token), Some(server)) = (token, server.as_object_mut()) {
        server.insert("env".to_owned(), json!({TOKEN_VARIABLE: token}));
    }
    Ok(serde_json::to_string_pretty(&json!({"mcpServers": {name: server}}))?)
}
