//! `callgate method`, `export`, `call`, `lint` and `upstream`.

use callgate::Mask;
use callgate::lint::ClientProfile;
use callgate_registry::MethodRow;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};

use super::ListArgs;
use super::values::{json, json_object, param, param_style, section_and_mask};
use crate::commands::BasicOptions;

#[derive(Debug, Subcommand)]
pub(crate) enum MethodCommand {
    /// Add a method
    #[command(after_long_help = "Example:\n  callgate method add user.get --param 'int $id_user' \
        --read-only --section content:read")]
    Add {
        /// Id of the method, such as `user.get`
        id: String,
        #[command(flatten)]
        fields: Box<MethodFields>,
    },
    /// List the methods
    #[command(after_long_help = "Example:\n  callgate method list --json")]
    List(ListArgs),
    /// Show a method: its tool, the access that it requires, and its problems
    #[command(after_long_help = "Example:\n  callgate method show user.get --user ada")]
    Show {
        /// Id of the method
        id: String,
        /// Also show whether this user may call the method, and why
        #[arg(long, value_name = "USER", alias = "caller")]
        user: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Change a method; properties that are not given stay unchanged
    #[command(
        alias = "edit",
        after_long_help = "Example:\n  callgate method set user.get --title 'Get a user'"
    )]
    Set {
        /// Id of the method
        id: String,
        #[command(flatten)]
        fields: Box<MethodFields>,
        /// Remove all sections from the method. The key `open_methods`, in the configuration or as a
        /// setting, decides whether everyone or nobody may call a method without sections
        #[arg(long, conflicts_with = "sections")]
        no_sections: bool,
        /// Undo a manual change: set this column to the value of the last import; may be repeated
        #[arg(long, value_name = "COLUMN", value_parser = reset_columns(),
            conflicts_with_all = ["sections", "no_sections"])]
        reset: Vec<String>,
    },
    /// Remove a method
    #[command(after_long_help = "Example:\n  callgate method remove user.get")]
    Remove {
        /// Id of the method
        id: String,
    },
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct MethodFields {
    /// Title that clients show to people
    #[arg(long)]
    pub(crate) title: Option<String>,
    /// What the method does and returns; agents choose tools by this text
    #[arg(long)]
    pub(crate) description: Option<String>,
    /// Parameter in PHP syntax, such as `int $id_user` or `bool $details = false`; may be repeated
    #[arg(long = "param", value_name = "PARAM", value_parser = param)]
    pub(crate) params: Vec<String>,
    /// Type of the result
    #[arg(long, value_name = "TYPE")]
    pub(crate) returns: Option<String>,
    /// The method only reads
    #[arg(long, conflicts_with = "destructive")]
    pub(crate) read_only: bool,
    /// The method changes data
    #[arg(long)]
    pub(crate) destructive: bool,
    /// Section, and the mask that callers need on it, such as `content:read`. If the option is
    /// repeated, callers need all given masks
    #[arg(long = "section", value_name = "SECTION:MASK", value_parser = section_and_mask)]
    pub(crate) sections: Vec<(String, Mask)>,
    /// Upstream that runs the method
    #[arg(long, value_name = "UPSTREAM")]
    pub(crate) upstream: Option<String>,
    /// Name of the MCP tool, without the prefix of the setting `mcp_tools_prefix`
    #[arg(long, value_name = "NAME")]
    pub(crate) tool_name: Option<String>,
    /// Name of the method at its service; an empty name means the id
    #[arg(long, value_name = "NAME")]
    pub(crate) remote_name: Option<String>,
    /// How parameters are sent: `name` (as an object), or `position`, `either` or `position-null`
    /// (as a list). If a parameter is absent and a later one is given, the list contains the
    /// default of the absent parameter, or null if the parameter allows null. If neither is
    /// possible, `position` refuses the call, `either` sends an object, and `position-null` sends
    /// null nevertheless
    #[arg(long, value_name = "STYLE", value_parser = param_style())]
    pub(crate) params_by: Option<String>,
    /// MCP annotations of the tool, as a JSON object. To turn the check of arguments on or off, use
    /// `--checked` or `--unchecked`
    #[arg(long, value_name = "JSON", value_parser = json_object)]
    pub(crate) annotations: Option<String>,
    /// JSON Schema of the arguments, instead of `--param`
    #[arg(long, value_name = "JSON", conflicts_with = "params", value_parser = json)]
    pub(crate) input_schema: Option<String>,
    /// JSON Schema of the result, instead of `--returns`
    #[arg(long, value_name = "JSON", conflicts_with = "returns", value_parser = json)]
    pub(crate) output_schema: Option<String>,
    /// Do not serve the method as a tool
    #[arg(long, conflicts_with = "exposed")]
    pub(crate) hidden: bool,
    /// Serve the method as a tool
    #[arg(long)]
    pub(crate) exposed: bool,
    /// Pass arguments to the service without checking them against the schema; clients still see the schema
    #[arg(long, conflicts_with = "checked")]
    pub(crate) unchecked: bool,
    /// Check arguments against the schema
    #[arg(long)]
    pub(crate) checked: bool,
}

/// Returns a parser of the columns that imports write.
fn reset_columns() -> PossibleValuesParser {
    let columns = MethodRow::COLUMNS.iter().map(|column| column.name);
    PossibleValuesParser::new(columns.filter(|column| *column != "upstream"))
}

#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  callgate export --format openrpc > openrpc.json")]
pub(crate) struct ExportArgs {
    /// Format to write
    #[arg(long, value_enum, default_value = "manifest")]
    pub(crate) format: ExportFormat,
    /// Write only methods of this upstream
    #[arg(long, value_name = "UPSTREAM")]
    pub(crate) upstream: Option<String>,
}

/// Formats of `callgate export`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ExportFormat {
    /// A manifest in JSON, with all columns of the methods; `callgate import manifest` reads it
    Manifest,
    /// An OpenRPC document
    Openrpc,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  callgate call user.get '{\"id_user\": 1}' --user ada")]
pub(crate) struct CallArgs {
    /// Tool: the id of its method, or its MCP name
    pub(crate) tool: String,
    /// Arguments, a JSON object; `-` reads them from standard input
    #[arg(default_value = "{}")]
    pub(crate) arguments: String,
    /// User to call as
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// URL of a running MCP server that has the tool; the token is read from `CALLGATE_TOKEN`
    #[arg(long, conflicts_with = "user")]
    pub(crate) url: Option<String>,
    /// Print the complete MCP result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  callgate lint --client cursor --strict")]
pub(crate) struct LintArgs {
    /// Check only the rules of this client and the rules for all clients; may be repeated
    #[arg(long = "client", value_name = "NAME", value_parser = client_profile())]
    pub(crate) clients: Vec<&'static ClientProfile>,
    /// Check only tools that this user may call
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Name that clients give to this server [default: the setting `mcp_server_name`]
    #[arg(long, value_name = "NAME")]
    pub(crate) server_name: Option<String>,
    /// Also exit with 1 if there are warnings
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print every problem, instead of the first few of each kind
    #[arg(long)]
    pub(crate) all: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn client_profile() -> impl TypedValueParser<Value = &'static ClientProfile> {
    let values = ClientProfile::ALL
        .iter()
        .map(|profile| PossibleValue::new(profile.name).help(profile.title));
    PossibleValuesParser::new(values)
        .try_map(|name| ClientProfile::named(&name).ok_or("a possible value is a profile's name"))
}

#[derive(Debug, Subcommand)]
pub(crate) enum UpstreamCommand {
    /// List the upstreams of the registry and of the configuration file, and their problems
    #[command(after_long_help = "Example:\n  callgate upstream list")]
    List(ListArgs),
    /// Show an upstream of the registry, without its secrets
    #[command(after_long_help = "Example:\n  callgate upstream show shop")]
    Show {
        /// Name of the upstream
        name: String,
        /// Print JSON on one line
        #[arg(long)]
        json: bool,
    },
    /// Add or change an upstream in the registry; servers apply the change within a second
    ///
    /// The keys are those of `[upstreams.NAME]` in the configuration file. Keys that are not given stay
    /// unchanged.
    #[command(after_long_help = "Example:\n  callgate upstream set shop \
        url=http://localhost:9000/rpc headers.X-Team=blue")]
    Set {
        /// Name of the upstream
        name: String,
        /// Key and value, such as `url=http://localhost:9000/rpc`; the value is JSON or text, and
        /// an empty value removes the key. A single `-` replaces all keys by those of a JSON object
        /// on standard input
        #[arg(value_name = "KEY=VALUE", required_unless_present_any = ["json", "basic"])]
        values: Vec<String>,
        #[command(flatten)]
        basic: BasicOptions,
        #[arg(long, conflicts_with = "values", hide = true)]
        json: bool,
    },
    /// Remove an upstream from the registry
    #[command(after_long_help = "Example:\n  callgate upstream remove shop")]
    Remove {
        /// Name of the upstream
        name: String,
    },
}
