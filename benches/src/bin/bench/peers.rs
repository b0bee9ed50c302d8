//! Other gateways, from npm and `PyPI`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use callgate_bench::packages::{install_pypi, npm_binary};

use crate::machine::Placement;

/// Package of MCP Toolbox, with the version of the published measurements.
const TOOLBOX: &str = "@toolbox-sdk/server@1.12.0";
/// Package of `FastMCP`, with the version of the published measurements.
const FASTMCP: &str = "fastmcp==4.1.2";

/// Configuration of MCP Toolbox: one tool, which sends its arguments as a JSON body. `SERVICE` is replaced.
const TOOLBOX_CONFIG: &str = "\
sources:
  service:
    kind: http
    baseUrl: http://SERVICE
    allowPrivateNetworks: true
tools:
  user_fetch:
    kind: http
    source: service
    method: POST
    path: /
    description: Looks up a user.
    headers:
      Content-Type: application/json
    requestBody: |
      {\"id_user\": {{.id_user}}}
    bodyParams:
      - name: id_user
        type: integer
        description: The user's number.
";

/// Application of `FastMCP` for uvicorn. `SERVICE` is replaced.
const FASTMCP_APPLICATION: &str = r#"
from fastmcp import FastMCP

schema = {"type": "object", "properties": {"id_user": {"type": "integer"}}, "required": ["id_user"]}
operation = {
    "operationId": "user_fetch",
    "description": "Looks up a user.",
    "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
    "responses": {"200": {"description": "user"}},
}
document = {
    "openapi": "3.1.0",
    "info": {"title": "service", "version": "1"},
    "servers": [{"url": "http://SERVICE"}],
    "paths": {"/": {"post": operation}},
}
app = FastMCP.from_openapi(document).http_app(stateless_http=True, json_response=True)
"#;

/// Returns the command of MCP Toolbox in front of a service.
pub(crate) fn toolbox(
    directory: &Path,
    address: SocketAddr,
    service: SocketAddr,
    placement: &Placement,
) -> anyhow::Result<Command> {
    let config = directory.join("tools.yaml");
    std::fs::write(&config, TOOLBOX_CONFIG.replace("SERVICE", &service.to_string()))?;
    let mut command = placement.command(&toolbox_program()?);
    command.arg("--config").arg(config).args(["--port", &address.port().to_string()]);
    command.args(["--disable-version-check", "--disable-reload", "--log-level", "ERROR"]);
    Ok(command)
}

/// Installs MCP Toolbox. Returns its path.
pub(crate) fn toolbox_program() -> anyhow::Result<PathBuf> {
    npm_binary(TOOLBOX, "@toolbox-sdk", "toolbox")
}

/// Returns the command of `FastMCP` in front of a service. It starts as many processes as the other servers have
/// threads.
pub(crate) fn fastmcp(
    directory: &Path,
    address: SocketAddr,
    service: SocketAddr,
    placement: &Placement,
) -> anyhow::Result<Command> {
    let text = FASTMCP_APPLICATION.replace("SERVICE", &service.to_string());
    std::fs::write(directory.join("application.py"), text)?;
    let mut command = placement.command(&fastmcp_python()?);
    command.args(["-m", "uvicorn", "application:app", "--log-level", "error"]);
    command.args(["--port", &address.port().to_string()]);
    command.args(["--workers", &placement.threads.to_string()]).current_dir(directory);
    Ok(command)
}

/// Installs `FastMCP`. Returns the Python interpreter that can import it.
pub(crate) fn fastmcp_python() -> anyhow::Result<PathBuf> {
    install_pypi(FASTMCP)
}
