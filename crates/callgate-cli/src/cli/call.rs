//! `callgate call`

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Call {
    /// The tool, by the method's id or by its name over MCP
    pub(crate) tool: String,
    /// The arguments, a JSON object; `-` reads them from standard input
    #[arg(default_value = "{}")]
    pub(crate) arguments: String,
    /// Who calls
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Call a tool of an MCP server that is running, by its name, with `CALLGATE_TOKEN`; by default the
    /// registry is used, and no server
    #[arg(long, conflicts_with = "user")]
    pub(crate) url: Option<String>,
    /// Print the whole result of MCP, as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
