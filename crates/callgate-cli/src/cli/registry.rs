//! `callgate registry`

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum RegistryCommand {
    /// Copy everything into another database
    ///
    /// Between any two kinds of database; the source stays as it is. Ids are kept, and in the end both are
    /// compared, table by table. The target must be empty, and stays so if the copy is interrupted: run it
    /// again.
    Copy(CopyRegistry),
}

#[derive(Debug, Args)]
pub(crate) struct CopyRegistry {
    /// The URL of the registry to read
    pub(crate) from: String,
    /// The URL of the database to write to
    pub(crate) to: String,
    /// A file with the password of the user who reads
    #[arg(long, value_name = "FILE")]
    pub(crate) from_password_file: Option<PathBuf>,
    /// A file with the password of the user who writes
    #[arg(long, value_name = "FILE")]
    pub(crate) to_password_file: Option<PathBuf>,
}
