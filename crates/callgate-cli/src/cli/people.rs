//! `callgate user`, `token`, `credential`, `section` and `grant`.

use std::path::PathBuf;
use std::time::SystemTime;

use callgate::Mask;
use clap::{ArgGroup, Args, Subcommand};

use super::ListArgs;
use super::values::{expiry, mask};

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Add a user
    #[command(after_long_help = "Example:\n  callgate user add ada --role editors")]
    Add {
        /// Login name
        name: String,
        /// Role of the user; created if it does not exist
        #[arg(long)]
        role: Option<String>,
    },
    /// List the users
    #[command(after_long_help = "Example:\n  callgate user list")]
    List(ListArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token for a user and print it; it cannot be shown again
    #[command(
        alias = "create",
        after_long_help = "Example:\n  callgate token add ada --expires-in 30d"
    )]
    Add {
        /// User that the token authenticates
        user: String,
        /// Name of the token
        #[arg(long, default_value = "cli")]
        name: String,
        /// Lifetime such as `30d` or `12h`, or the date in UTC when the token expires, such as `2030-01-31`; by
        /// default, the token does not expire
        #[arg(long, value_name = "DURATION|DATE", value_parser = expiry)]
        expires_in: Option<SystemTime>,
    },
    /// List the tokens, without their secrets
    #[command(after_long_help = "Example:\n  callgate token list ada")]
    List {
        /// User whose tokens are listed [default: all users]
        user: Option<String>,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Revoke a token
    #[command(alias = "revoke", after_long_help = "Example:\n  callgate token remove 3")]
    Remove {
        /// Number of the token, from `callgate token list`
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum CredentialCommand {
    /// List the credentials, without their secrets
    #[command(after_long_help = "Example:\n  callgate credential list")]
    List(ListArgs),
    /// Set a user's credential for an upstream; the secret is read from standard input
    #[command(
        after_long_help = "Example:\n  callgate credential set ada shop --secret-file ada.key"
    )]
    Set {
        /// User
        user: String,
        /// Upstream; its key `credential` defines how the secret is sent
        upstream: String,
        /// File that contains the secret, instead of standard input
        #[arg(long, value_name = "FILE", alias = "file")]
        secret_file: Option<PathBuf>,
    },
    /// Remove a user's credential for an upstream
    #[command(after_long_help = "Example:\n  callgate credential remove ada shop")]
    Remove {
        /// User
        user: String,
        /// Upstream
        upstream: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SectionCommand {
    /// Add a section
    #[command(after_long_help = "Example:\n  callgate section add content --caption 'Articles'")]
    Add {
        /// Name of the section; methods and grants refer to it
        ident: String,
        /// Title of the section [default: the name]
        #[arg(long)]
        caption: Option<String>,
        /// Mask that Festi stores with a section; Callgate uses the masks of methods instead
        #[arg(long, default_value = "execute", hide_short_help = true, value_parser = mask())]
        mask: Mask,
    },
    /// List the sections
    #[command(after_long_help = "Example:\n  callgate section list")]
    List(ListArgs),
}

/// `callgate grant COMMAND`. `callgate grant --user USER SECTION MASK` is a short form of `grant set`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, override_usage = "callgate grant <COMMAND>")]
pub(crate) struct GrantArgs {
    #[command(subcommand)]
    pub(crate) command: Option<GrantCommand>,
    #[command(flatten)]
    pub(crate) set: Option<GrantSet>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GrantCommand {
    /// List the grants of users and roles
    #[command(after_long_help = "Example:\n  callgate grant list")]
    List(ListArgs),
    /// Set the mask of a user or a role on a section
    #[command(after_long_help = "Example:\n  callgate grant set --role editors content write")]
    Set(GrantSet),
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("holder").args(["user", "role"]).required(true))]
pub(crate) struct GrantSet {
    /// User; the grant of a user takes precedence over the grant of the user's role
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// Role
    #[arg(long)]
    pub(crate) role: Option<String>,
    /// Section
    pub(crate) section: String,
    /// Mask; `none` for a user denies access that the user's role allows
    #[arg(value_parser = mask())]
    pub(crate) mask: Mask,
}
