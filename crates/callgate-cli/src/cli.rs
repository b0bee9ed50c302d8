//! The command line.
//!
//! Commands are grouped as in `callgate --help`: serve, methods, people, operate. Shell completions, man
//! pages and docs/reference/command-line.md are generated from the same definitions.

mod values;
mod serve;
mod methods;
mod import;
mod people;
mod operate;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use serde::{Deserialize, Serialize};

pub(crate) use import::{Import, ImportCommand, Review};
pub(crate) use methods::{
    CallArgs, ExportArgs, ExportFormat, LintArgs, MethodCommand, MethodFields, UpstreamCommand,
};
pub(crate) use operate::{
    CompletionsArgs, CopyArgs, KeyCommand, ManArgs, MigrateArgs, RegistryCommand, SettingCommand,
};
pub(crate) use people::{
    CredentialCommand, GrantArgs, GrantCommand, GrantSet, SectionCommand, TokenCommand, UserCommand,
};
pub(crate) use serve::{BridgeArgs, Protocol, ServeArgs, TryArgs};
pub(crate) use values::{address, mask_name};

/// Serves the JSON-RPC methods of an application as MCP tools, with access control per caller.
#[derive(Debug, Parser)]
#[command(name = "callgate", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(crate) struct GlobalArgs {
    /// URL of the registry: `sqlite:PATH`, `postgres://…`, `mysql://…` or `mssql://…` [default:
    /// sqlite:callgate.db]
    #[arg(long, global = true, value_name = "URL", help_heading = GLOBAL)]
    pub(crate) database: Option<String>,
    /// Configuration file [default: callgate.toml, if it exists]
    #[arg(long, global = true, value_name = "FILE", help_heading = GLOBAL)]
    pub(crate) config: Option<PathBuf>,
    /// Defaults for a kind of application
    #[arg(long, global = true, value_name = "NAME", help_heading = GLOBAL,
        value_parser = ["festi", "drupal"])]
    pub(crate) preset: Option<String>,
    /// URL of a Festi application's database, which is only read; needs `--preset festi`
    #[arg(long, global = true, value_name = "URL", help_heading = GLOBAL)]
    pub(crate) attach: Option<String>,
    /// Manifest that completes or changes the methods of the attached database
    #[arg(long, global = true, value_name = "FILE", help_heading = GLOBAL)]
    pub(crate) overlay: Option<PathBuf>,
}

/// Heading of [`GlobalArgs`] in the help.
const GLOBAL: &str = "Global options";

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the tools over HTTP, or over standard input and output
    Serve(ServeArgs),
    /// Serve a JSON-RPC service as tools, without configuration and without a registry
    ///
    /// Reads the service's own description: the result of `rpc.discover` or `system.listMethods`, a
    /// document at the URL, or the list of a Drupal module. Runs until Ctrl-C, and accepts
    /// connections only from this machine.
    Try(TryArgs),
    /// Forward MCP messages from standard input and output to a server over HTTP
    ///
    /// Forwards each message of the client to a Streamable HTTP server, and returns the replies of the server. Pass the
    /// token in the environment variable `CALLGATE_TOKEN`.
    Bridge(BridgeArgs),
    /// Manage methods
    #[command(subcommand)]
    Method(MethodCommand),
    /// Import methods from a description of a service
    ///
    /// Writes everything in one transaction. Importing the same description again changes nothing. Values that
    /// were changed by hand are kept.
    #[command(subcommand)]
    Import(ImportCommand),
    /// Write the methods to stdout, for another registry or another program
    Export(ExportArgs),
    /// Call a tool from the command line
    ///
    /// Without `--url`, runs the same steps as a server: access control, argument checks and the
    /// call to the upstream. The caller is the user of `--user`, or else the user of the token in
    /// `CALLGATE_TOKEN`, or else anonymous.
    Call(CallArgs),
    /// Check tools for problems with known MCP clients
    ///
    /// Checks the tools as they are served. Exits with 1 if a client would reject a tool or the whole list.
    Lint(LintArgs),
    /// Manage the services that run methods
    #[command(subcommand)]
    Upstream(UpstreamCommand),
    /// Manage users
    #[command(subcommand)]
    User(UserCommand),
    /// Manage users' tokens
    #[command(subcommand)]
    Token(TokenCommand),
    /// Manage users' credentials for upstream services
    #[command(subcommand)]
    Credential(CredentialCommand),
    /// Manage sections, the parts of the application on which access is granted
    #[command(subcommand)]
    Section(SectionCommand),
    /// Manage the access of users and roles to sections
    Grant(GrantArgs),
    /// Manage the settings that are stored in the registry
    #[command(subcommand, alias = "settings")]
    Setting(SettingCommand),
    /// Manage the keys that sign sessions
    #[command(subcommand, alias = "keys")]
    Key(KeyCommand),
    /// Create the registry, or upgrade it to this version
    Migrate(MigrateArgs),
    /// Copy the registry to another database
    #[command(subcommand)]
    Registry(RegistryCommand),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Write man pages to a directory, one for each command
    #[command(hide = true)]
    Man(ManArgs),
}

/// Groups of commands in the help, in the order of [`Command`].
const GROUPS: [(&str, &[&str]); 4] = [
    ("Serve", &["serve", "try", "bridge"]),
    ("Methods", &["method", "import", "export", "call", "lint", "upstream"]),
    ("People", &["user", "token", "credential", "section", "grant"]),
    ("Operate", &["setting", "key", "migrate", "registry", "completions"]),
];

/// Returns the global options that have no effect on a command. The help of the command omits them.
fn unused_options(command: &str) -> &'static [&'static str] {
    match command {
        "try" | "bridge" | "completions" | "man" => {
            &["database", "config", "preset", "attach", "overlay"]
        }
        "registry" => &["database", "attach", "overlay"],
        "import" | "key" => &["attach", "overlay"],
        "serve" | "method" | "export" | "call" | "lint" => &[],
        _ => &["overlay"],
    }
}

impl Cli {
    /// Parses the command line. If the usage is wrong, prints the error and exits with 2.
    pub(crate) fn read() -> Self {
        let matches = Self::definition().get_matches();
        let is_on_command_line =
            |option: &&str| matches.value_source(option) == Some(ValueSource::CommandLine);
        if let Some(name @ ("bridge" | "try")) = matches.subcommand_name()
            && let Some(option) = unused_options(name).iter().copied().find(is_on_command_line)
        {
            let message = format!("'--{option}' has no effect on '{name}', which uses no registry");
            Self::command().error(ErrorKind::ArgumentConflict, message).exit();
        }
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }

    /// Returns the definition of the whole command line. The help shows the commands in groups.
    pub(crate) fn definition() -> clap::Command {
        let command = Self::command();
        let global: Vec<Arg> = command.get_arguments().cloned().collect();
        let command = command.mut_subcommands(|subcommand| {
            let unused = unused_options(subcommand.get_name());
            let is_unused = |arg: &&Arg| unused.contains(&arg.get_id().as_str());
            let hidden = global.iter().filter(is_unused).map(|arg| arg.clone().hide(true));
            // `callgate grant` without a subcommand is a short form of `grant set`. The help omits its arguments.
            let is_hidden = subcommand.get_name() == "grant";
            subcommand.mut_args(|arg| if is_hidden { arg.hide(true) } else { arg }).args(hidden)
        });
        let header = *command.get_styles().get_header();
        let template = format!(
            "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}\
             {header}{GLOBAL}:{header:#}\n{{options}}{{after-help}}",
            list_by_group(&command)
        );
        command
            .help_template(template)
            .after_help("`callgate help COMMAND` describes a command, with an example.")
    }
}

/// Lists the commands by group, in the format of clap's own list.
fn list_by_group(command: &clap::Command) -> String {
    let header = command.get_styles().get_header();
    let literal = command.get_styles().get_literal();
    let mut text = String::new();
    for (group, names) in GROUPS {
        let _ = writeln!(text, "{header}{group}:{header:#}");
        for subcommand in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
            let name = subcommand.get_name();
            let _ = writeln!(text, "  {literal}{name:<12}{literal:#} {about}");
        }
        text.push('\n');
    }
    text
}
