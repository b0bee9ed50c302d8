//! `callgate serve`, `try` and `bridge`.

use std::net::SocketAddr;
use std::path::PathBuf;

use callgate_import::drupal::Module;
use clap::Args;

use super::import::{DRUPAL_TOOLS, drupal_module};
use super::values::address;
use crate::commands::ServiceOptions;

#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  callgate serve --listen 0.0.0.0:8080 --require-auth")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct ServeArgs {
    /// Address to listen on [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Separate address for health, readiness and metrics; requests to this address need no token.
    /// By default, these endpoints are at the address of `--listen`
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) operations_listen: Option<SocketAddr>,
    /// Refuse callers without a token
    #[arg(long)]
    pub(crate) require_auth: bool,
    /// Accept callers without a token on addresses that other machines can reach
    #[arg(long, conflicts_with = "require_auth")]
    pub(crate) allow_anonymous: bool,
    /// Time for which tokens in the memory of the server stay valid while the registry cannot be
    /// read [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(..=86_400))]
    pub(crate) token_grace_seconds: Option<u32>,
    /// Serve a built-in sample application with two users and new tokens. With this option, the
    /// default of `--database` is sqlite:callgate-demo.db
    #[arg(long)]
    pub(crate) demo: bool,
    /// Speak MCP over standard input and output instead of HTTP, as the user of the token in
    /// `CALLGATE_TOKEN`
    #[arg(long, conflicts_with_all = ["listen", "operations_listen", "json", "allow_anonymous"])]
    pub(crate) stdio: bool,
    /// Print the address and a summary as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  callgate try http://localhost:9000/rpc")]
pub(crate) struct TryArgs {
    /// URL of the service
    pub(crate) url: String,
    #[command(flatten)]
    pub(crate) service: ServiceOptions,
    /// Description to read from a Drupal site
    #[arg(long, value_parser = drupal_module(), default_value = DRUPAL_TOOLS)]
    pub(crate) from: Module,
    /// Loopback address to listen on [default: a free port of 127.0.0.1]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Print the address and a summary as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  callgate bridge --url https://example.com/mcp")]
pub(crate) struct BridgeArgs {
    /// Protocol of the server
    #[arg(long, value_enum, default_value = "http")]
    pub(crate) protocol: Protocol,
    /// Name or address of the server
    #[arg(long, default_value = "localhost")]
    pub(crate) host: String,
    /// Port of the server
    #[arg(long, default_value_t = 8080, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: u16,
    /// Path of the MCP endpoint
    #[arg(long, default_value = "/")]
    pub(crate) path: String,
    /// URL of the MCP endpoint, instead of protocol, host, port and path
    #[arg(long, conflicts_with_all = ["protocol", "host", "port", "path"])]
    pub(crate) url: Option<String>,
    /// Token, instead of `CALLGATE_TOKEN`; other users of this machine can see the token in the
    /// process list
    #[arg(long, conflicts_with = "token_file")]
    pub(crate) token: Option<String>,
    /// File that contains the token, instead of `CALLGATE_TOKEN`
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// File with PEM certificates of authorities to trust, in addition to those of the system
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Additional header; may be repeated. A header `Authorization` replaces the token
    #[arg(long = "header", value_name = "NAME: VALUE", num_args = 1..)]
    pub(crate) headers: Vec<String>,
}

/// Protocol of the server that the bridge connects to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Protocol {
    Http,
    Https,
}
