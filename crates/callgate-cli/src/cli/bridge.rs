//! `callgate bridge`

use std::path::PathBuf;

use clap::Args;

use super::without_registry;

#[derive(Debug, Args)]
#[command(args = without_registry())]
pub(crate) struct Bridge {
    /// http or https
    #[arg(long, value_enum, default_value = "http")]
    pub(crate) protocol: Protocol,
    /// The server's name or address
    #[arg(long, default_value = "localhost")]
    pub(crate) host: String,
    /// The server's port
    #[arg(long, default_value_t = 8080, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: u16,
    /// Where on the server MCP is
    #[arg(long, default_value = "/")]
    pub(crate) path: String,
    /// Protocol, host, port and path at once, such as `https://example.com/mcp`
    #[arg(long, conflicts_with_all = ["protocol", "host", "port", "path"])]
    pub(crate) url: Option<String>,
    /// Who the client is, in place of `CALLGATE_TOKEN`; others on this machine can see it here, so better
    /// use that
    #[arg(long, conflicts_with = "token_file")]
    pub(crate) token: Option<String>,
    /// A file with the token, in place of `CALLGATE_TOKEN`
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// A file, in PEM, with certificates of authorities to trust beside those of the system
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// A further header, `Name: value`; may repeat. `Authorization` is sent in place of any token
    #[arg(long = "header", value_name = "HEADER", num_args = 1..)]
    pub(crate) headers: Vec<String>,
}

/// How the bridge connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Protocol {
    Http,
    Https,
}
