//! `callgate setting`, `key`, `migrate`, `registry`, `completions` and `man`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::Shell;

use super::ListArgs;
use super::values::setting_name;

#[derive(Debug, Subcommand)]
pub(crate) enum SettingCommand {
    /// List the settings
    #[command(after_long_help = "Example:\n  callgate setting list")]
    List(ListArgs),
    /// Show a setting
    #[command(after_long_help = "Example:\n  callgate setting show mcp_server_name")]
    Show {
        /// Name of the setting
        #[arg(value_parser = setting_name())]
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Change a setting; running servers apply the change within a second
    #[command(after_long_help = "Example:\n  callgate setting set mcp_server_name shop")]
    Set {
        /// Name of the setting
        #[arg(value_parser = setting_name())]
        name: String,
        /// New value
        value: String,
    },
    #[command(hide = true)]
    Get {
        #[arg(value_parser = setting_name())]
        name: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// List the keys, without their secrets
    #[command(after_long_help = "Example:\n  callgate key list")]
    List(ListArgs),
    /// Create a new key that replaces the current one
    ///
    /// The new key begins to sign after ten seconds, when all servers have loaded it. Sessions that older keys signed
    /// stay valid. Servers also rotate keys automatically (`key_rotation_days`).
    #[command(after_long_help = "Example:\n  callgate key rotate")]
    Rotate {
        /// Sign with the new key at once and delete all older keys, for example after a key has
        /// leaked. Clients have to initialize again
        #[arg(long)]
        now: bool,
    },
}

#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  callgate migrate --dry-run")]
pub(crate) struct MigrateArgs {
    /// Print the SQL without running it
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RegistryCommand {
    /// Copy the registry to an empty database of any kind
    ///
    /// Ids are kept, and both databases are compared at the end, table by table. The source is only read. If
    /// the copy is interrupted, run the command again.
    #[command(after_long_help = "Example:\n  callgate registry copy sqlite:callgate.db \
        postgres://callgate@db.example.com/callgate --to-password-file password")]
    Copy(CopyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CopyArgs {
    /// URL of the registry to read
    pub(crate) from: String,
    /// URL of the database to write to
    pub(crate) to: String,
    /// File that contains the password of the source
    #[arg(long, value_name = "FILE")]
    pub(crate) from_password_file: Option<PathBuf>,
    /// File that contains the password of the target
    #[arg(long, value_name = "FILE")]
    pub(crate) to_password_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  callgate completions bash > \
    ~/.local/share/bash-completion/completions/callgate")]
pub(crate) struct CompletionsArgs {
    /// Shell
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  callgate man target/man")]
pub(crate) struct ManArgs {
    /// Directory; created if it does not exist
    pub(crate) directory: PathBuf,
}
