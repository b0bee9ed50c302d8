//! The command line.

mod bridge;
mod call;
mod import;
mod lint;
mod registry;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use callgate::Mask;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::commands::ServiceOptions;

pub(crate) use bridge::{Bridge, Protocol};
pub(crate) use call::Call;
pub(crate) use import::{DrupalDescription, Import, ImportCommand};
pub(crate) use lint::Lint;
pub(crate) use registry::{CopyRegistry, RegistryCommand};

/// Turns the JSON-RPC methods that an application already has into MCP tools, and lets each caller
/// use only the ones that they may.
#[derive(Debug, Parser)]
#[command(name = "callgate", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Reads the command line, or says what is wrong with it and ends.
    pub(crate) fn read() -> Self {
        let matches = Self::command().get_matches();
        let given = |option: &&str| matches.value_source(option) == Some(ValueSource::CommandLine);
        if let Some(name @ ("bridge" | "try")) = matches.subcommand_name()
            && let Some(option) = GLOBAL.iter().find(|option| given(option))
        {
            let words = format!("'--{option}' does nothing for '{name}', which has no registry");
            Self::command().error(ErrorKind::ArgumentConflict, words).exit();
        }
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }

    /// The URLs of databases that it has, what each is called, and how its password is better given.
    pub(crate) fn urls(&self) -> Vec<(&str, &'static str, &'static str)> {
        let mut urls = Vec::new();
        if let Some(url) = &self.global.database {
            let instead = "set `CALLGATE_DATABASE_PASSWORD` or `database.password_file`";
            urls.push((url.as_str(), "`--database`", instead));
        }
        if let Some(url) = &self.global.attach {
            let instead = "set `CALLGATE_ATTACH_PASSWORD` or `attach.password_file`";
            urls.push((url, "`--attach`", instead));
        }
        match &self.command {
            Command::Registry(RegistryCommand::Copy(copy)) => {
                urls.push((&copy.from, "the URL of the source", "give `--from-password-file`"));
                urls.push((&copy.to, "the URL of the target", "give `--to-password-file`"));
            }
            Command::Import(ImportCommand::From(import)) => {
                if let Import::Festi { database_url, .. } = &**import {
                    urls.push((database_url, "the URL of the source", "give `--password-file`"));
                }
            }
            _ => {}
        }
        urls
    }
}

#[derive(Debug, Args)]
pub(crate) struct Global {
    /// The registry, `sqlite:PATH`, `postgres://…`, `mysql://…` or `mssql://…`; by default
    /// `sqlite:callgate.db`
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) database: Option<String>,
    /// The configuration file; by default `callgate.toml`, if it is there
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Defaults for a kind of application: festi or drupal
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// The database of a Festi application, to be served as it is and only read; with `--preset festi`
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) attach: Option<String>,
    /// A manifest that says more of the methods of an attached database
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) overlay: Option<PathBuf>,
}

/// The names of these options.
const GLOBAL: [&str; 5] = ["database", "config", "preset", "attach", "overlay"];

/// The options of all commands, where they would do nothing: out of the help, and refused when given.
fn without_registry() -> [Arg; 5] {
    GLOBAL.map(|name| {
        let hidden = Arg::new(name).long(name).hide(true);
        match name {
            "config" | "overlay" => hidden.value_parser(clap::value_parser!(PathBuf)),
            _ => hidden,
        }
    })
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the tools over HTTP, or over standard input and output
    Serve(Serve),
    /// Serve what a JSON-RPC service has as tools, with no configuration and nothing written
    ///
    /// Asks the service what it has: by `rpc.discover`, `system.listMethods`, a document at its URL, or the
    /// modules of Drupal. Serves it on this machine until Ctrl-C.
    Try(Try),
    /// Connect a client that starts programs to an MCP server over HTTP
    ///
    /// Speaks MCP over standard input and output, and passes every message to a Streamable HTTP server
    /// and back. The token is best given in `CALLGATE_TOKEN`.
    Bridge(Bridge),
    /// Add, change, look at and remove methods
    #[command(subcommand)]
    Method(Method),
    /// Take methods from a description of a service
    ///
    /// All of it is written at once, or nothing. A second import of the same changes nothing, and what you
    /// changed by hand since (title, description, safety, annotations, sections, exposure) stays.
    #[command(subcommand)]
    Import(ImportCommand),
    /// Write the methods to stdout, for another registry or other programs
    Export(Export),
    /// Call a tool, as a caller would
    ///
    /// All that a call over the network goes through happens here too: access, the check of the arguments,
    /// the upstream. No server is needed. Without `--user` it is the user of `CALLGATE_TOKEN`, else nobody.
    Call(Call),
    /// Say what clients would choke on
    ///
    /// Looks at the tools as they are served. The exit code is 1 where some client loses a tool, or all of
    /// them.
    Lint(Lint),
    /// Set, list, show and remove the services that run methods
    #[command(subcommand)]
    Upstream(Upstream),
    /// Add and list users
    #[command(subcommand)]
    User(User),
    /// Create, list and revoke tokens
    #[command(subcommand)]
    Token(Token),
    /// List and replace the keys that sessions are signed with
    #[command(subcommand)]
    Keys(Keys),
    /// Set, list and remove what users are known by at upstreams
    #[command(subcommand)]
    Credential(Credential),
    /// Add and list sections
    #[command(subcommand)]
    Section(Section),
    /// Say what a user or a role may do on a section
    Grant(Grant),
    /// Read and write the settings that live in the registry
    #[command(subcommand)]
    Settings(Settings),
    /// Make the registry, or bring it up to date
    Migrate(Migrate),
    /// Look after the registry as a whole
    #[command(subcommand)]
    Registry(RegistryCommand),
}

#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// Print the SQL that would be run, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Serve {
    /// Where to listen; by default 127.0.0.1:8080
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Refuse callers without a token
    #[arg(long)]
    pub(crate) require_auth: bool,
    /// Serve callers without a token also beyond this machine
    #[arg(long, conflicts_with = "require_auth")]
    pub(crate) allow_anonymous: bool,
    /// How long tokens are honoured after the registry was last read, if it cannot be; by default 60
    #[arg(long, value_name = "SECONDS")]
    pub(crate) token_grace_seconds: Option<String>,
    /// Serve a small application that is built in, with two users and their tokens
    #[arg(long)]
    pub(crate) demo: bool,
    /// Speak MCP over standard input and output instead of HTTP, as the user of `CALLGATE_TOKEN`
    #[arg(long, conflicts_with_all = ["listen", "json", "allow_anonymous"])]
    pub(crate) stdio: bool,
    /// Say in one line of JSON, on stdout, where it listens
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(args = without_registry())]
pub(crate) struct Try {
    /// The URL of the service
    pub(crate) url: String,
    #[command(flatten)]
    pub(crate) service: ServiceOptions,
    /// The description to read of a Drupal site
    #[arg(long, value_enum, default_value_t)]
    pub(crate) from: DrupalDescription,
    /// Where to listen, on this machine; by default on any free port
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Say in one line of JSON, on stdout, where it listens
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Method {
    /// Add a method
    Add {
        /// The id, such as `user.get`
        id: String,
        #[command(flatten)]
        fields: Box<MethodFields>,
    },
    /// Change a method; what is not named stays
    Edit {
        /// The id
        id: String,
        #[command(flatten)]
        fields: Box<MethodFields>,
        /// Open the method to every caller
        #[arg(long, conflicts_with = "sections")]
        no_sections: bool,
    },
    /// List the methods
    List(List),
    /// Show a method: its tool, what callers need, and what is worth a look
    Show {
        /// The id
        id: String,
        /// Also say whether this user may call it, and why
        #[arg(long, value_name = "USER")]
        caller: Option<String>,
        #[command(flatten)]
        list: List,
    },
    /// Remove a method
    Remove {
        /// The id
        id: String,
    },
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct MethodFields {
    /// A title for people
    #[arg(long)]
    pub(crate) title: Option<String>,
    /// What it does and returns; agents see little else
    #[arg(long)]
    pub(crate) description: Option<String>,
    /// A parameter as PHP writes it: `int $id_user`, `bool $details = false`; may repeat
    #[arg(long = "param", value_name = "PARAM")]
    pub(crate) params: Vec<String>,
    /// The type of the result
    #[arg(long, value_name = "TYPE")]
    pub(crate) returns: Option<String>,
    /// It only reads
    #[arg(long, conflicts_with = "destructive")]
    pub(crate) read_only: bool,
    /// It changes something
    #[arg(long)]
    pub(crate) destructive: bool,
    /// A section and the mask that callers need on it, `content:read`; may repeat, all must hold
    #[arg(long = "section", value_name = "SECTION:MASK", value_parser = section_and_mask)]
    pub(crate) sections: Vec<(String, Mask)>,
    /// What runs it
    #[arg(long, value_name = "NAME")]
    pub(crate) upstream: Option<String>,
    /// The tool's name over MCP, without the prefix
    #[arg(long, value_name = "NAME")]
    pub(crate) tool_name: Option<String>,
    /// Annotations that pass through to clients, a JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) annotations: Option<String>,
    /// A JSON Schema for all arguments, in place of parameters
    #[arg(long, value_name = "JSON", conflicts_with = "params")]
    pub(crate) input_schema: Option<String>,
    /// A JSON Schema for the result, in place of its type
    #[arg(long, value_name = "JSON", conflicts_with = "returns")]
    pub(crate) output_schema: Option<String>,
    /// Not a tool
    #[arg(long, conflicts_with = "exposed")]
    pub(crate) hidden: bool,
    /// A tool
    #[arg(long)]
    pub(crate) exposed: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// What to write
    #[arg(long, value_enum, default_value = "manifest")]
    pub(crate) format: ExportFormat,
    /// Only methods that this upstream runs
    #[arg(long, value_name = "NAME")]
    pub(crate) upstream: Option<String>,
}

/// What the registry can be written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ExportFormat {
    /// Our own form, in JSON, with all that the registry knows of methods
    Manifest,
    /// An OpenRPC document
    Openrpc,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Upstream {
    /// Write a service to the registry; a running server takes it within a second
    ///
    /// The keys are those of `[upstreams.NAME]` in the file. What is not named stays.
    Set {
        /// What methods call it
        name: String,
        /// Such as `url=http://localhost:9000/rpc` or `headers.X-Team=blue`; JSON where it is not a plain
        /// text, and nothing behind `=` takes a key away
        #[arg(value_name = "KEY=VALUE", required_unless_present = "json")]
        values: Vec<String>,
        /// Read all keys from standard input, as a JSON object
        #[arg(long, conflicts_with = "values")]
        json: bool,
    },
    /// List the services, also those of the file, and what is wrong with them
    List(List),
    /// Show a service of the registry, without its secrets
    Show {
        /// Its name
        name: String,
    },
    /// Remove a service from the registry
    Remove {
        /// Its name
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum User {
    /// Add a user
    Add {
        /// The login name
        name: String,
        /// Their role; made if it is not there
        #[arg(long)]
        role: Option<String>,
    },
    /// List the users
    List(List),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Create a token, and print it: it is not shown again
    Create {
        /// The user that it speaks for
        user: String,
        /// What to call it
        #[arg(long, default_value = "cli")]
        name: String,
        /// When it ends, such as `30d` or `12h`; by default never
        #[arg(long, value_name = "DURATION", value_parser = token_life)]
        expires_in: Option<std::time::Duration>,
    },
    /// List the tokens, without their secrets
    List(List),
    /// Revoke a token
    Revoke {
        /// Its number, from `token list`
        id: i64,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// List the keys, without their secrets
    List(List),
    /// Have a new key sign
    ///
    /// It signs in ten seconds, when every gateway knows it, and what older keys signed stays good.
    /// `serve` does so by itself from time to time (`key_rotation_days`).
    Rotate {
        /// At once, and end what older keys signed, since one has leaked: clients have to initialize again
        #[arg(long)]
        now: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Credential {
    /// Say what a user is known by at an upstream; the secret is read from standard input
    Set {
        /// The user
        user: String,
        /// The upstream, whose `credential` says how it is sent
        upstream: String,
        /// A file with the secret, in place of standard input
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// List who has one, without the secrets
    List(List),
    /// Remove one
    Remove {
        /// The user
        user: String,
        /// The upstream
        upstream: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Section {
    /// Add a section
    Add {
        /// Its name for code
        ident: String,
        /// Its name for people
        #[arg(long)]
        caption: Option<String>,
        /// Festi's own mask of the section; what counts is the mask of each action
        #[arg(long, default_value = "execute")]
        mask: Mask,
    },
    /// List the sections
    List(List),
}

#[derive(Debug, Args)]
pub(crate) struct Grant {
    #[command(flatten)]
    pub(crate) holder: GrantHolder,
    /// The section
    pub(crate) section: String,
    /// none, read, write or execute; none for a user denies what their role has
    pub(crate) mask: Mask,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct GrantHolder {
    /// To a user, over what their role has
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// To a role
    #[arg(long)]
    pub(crate) role: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Settings {
    /// Print a setting, or all
    Get {
        /// The key
        key: Option<String>,
    },
    /// Write a setting
    Set {
        /// The key
        key: String,
        /// The value
        value: String,
    },
}

fn token_life(text: &str) -> Result<std::time::Duration, String> {
    let life = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    // A hundred years.
    if (1..=3_155_760_000).contains(&life.as_secs()) {
        Ok(life)
    } else {
        Err("expected between a second and a hundred years".to_owned())
    }
}

fn section_and_mask(text: &str) -> Result<(String, Mask), String> {
    let (section, mask) = text
        .rsplit_once(':')
        .ok_or_else(|| format!("`{text}` names no mask; expected such as `content:read`"))?;
    match mask.parse() {
        Ok(Mask::None) => Err("a method needs read, write or execute".to_owned()),
        Ok(mask) => Ok((section.to_owned(), mask)),
        Err(error) => Err(format!("{error}")),
    }
}
