//! `callgate import`: from a source, or what is held back.

use std::path::PathBuf;

use callgate_import::openrpc::{Reference, parse_reference};
use callgate_import::{Needed, Selection, drupal};
use callgate_registry::TableNames;
use clap::{Args, Parser, Subcommand, ValueEnum};

use super::section_and_mask;
use crate::commands::ServiceOptions;
use crate::errors::hinted;

#[derive(Debug, Subcommand)]
pub(crate) enum ImportCommand {
    #[command(flatten)]
    From(Box<Import>),
    /// Show the changes that repeated imports hold back
    ///
    /// These are the imports of `[imports.NAME]` in the configuration with `policy = "hold"`.
    Pending {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Write the changes that a repeated import holds back
    ///
    /// Only what `pending` shows: if the source has changed since, that is shown and nothing is written.
    Approve {
        /// The import's name in the configuration
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Import {
    /// From an OpenRPC document, of any version
    ///
    /// A service is asked for `rpc.discover`, and for what is at its URL. Nothing outside of the document
    /// is read but what `--reference` names. Deprecated methods and those without a result are imported,
    /// but are not tools.
    Openrpc {
        /// A file, or the URL of a service or of a document; by default where the upstream is
        #[arg(value_name = "FILE|URL")]
        source: Option<String>,
        /// A file for what `$ref`s of the document call `NAME`, such as `./types.json`; may repeat
        #[arg(long = "reference", value_name = "NAME=FILE", value_parser = parse_reference)]
        references: Vec<Reference>,
        #[command(flatten)]
        service: ServiceOptions,
        #[command(flatten)]
        options: ImportOptions,
    },
    /// From what a service lists itself, by `system.listMethods`
    ///
    /// With `system.methodSignature` and `system.methodHelp`, where it has them. A method without a
    /// signature takes any parameters, by position.
    Introspect {
        /// The URL of the service; by default where the upstream is
        url: Option<String>,
        #[command(flatten)]
        service: ServiceOptions,
        #[command(flatten)]
        options: ImportOptions,
    },
    /// From a Drupal site with the module `jsonrpc_mcp`
    ///
    /// The methods are those that are marked as tools. The upstream is `/jsonrpc` of the site. What there is
    /// depends on who asks.
    Drupal {
        /// The URL of the site; by default where the upstream is
        url: Option<String>,
        /// The description to read
        #[arg(long, value_enum, default_value_t)]
        from: DrupalDescription,
        #[command(flatten)]
        service: ServiceOptions,
        #[command(flatten)]
        options: ImportOptions,
    },
    /// From PHP source: `@rpc` doc comments, and the attributes `JsonRpcMethod` and `McpTool`
    ///
    /// Nothing is run. Types, defaults and the classes behind them are read from signatures, doc
    /// comments and attributes. A file that does not parse is named and skipped.
    Php {
        /// The directory; `vendor`, `node_modules` and what begins with a dot are left out
        directory: PathBuf,
        /// What tells this source from others of the same upstream; by default the directory's name
        #[arg(long)]
        name: Option<String>,
        /// Also read `vendor` and `node_modules`
        #[arg(long)]
        vendor: bool,
        /// A directory or a file to leave out, by its name or its path below; may repeat
        #[arg(long, value_name = "PATH")]
        skip: Vec<PathBuf>,
        #[command(flatten)]
        options: ImportOptions,
    },
    /// From the database of a Festi application, which is only read
    ///
    /// Methods come with the sections and masks that their actions say; sections, roles and what roles
    /// may do are taken where the registry does not have them.
    Festi {
        /// `mysql://…`, `postgres://…`, `mssql://…` or `sqlite:PATH`
        #[arg(value_name = "DATABASE-URL")]
        database_url: String,
        /// A file with the password of the user who reads
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
        /// What its tables of sections and permissions have before their names
        #[arg(long, default_value = "festi_", value_parser = TableNames::with_prefix)]
        prefix: TableNames,
        /// Also take its users, and what they have beside their role
        #[arg(long)]
        users: bool,
        #[command(flatten)]
        options: ImportOptions,
    },
    /// From a manifest in TOML or JSON, such as `callgate export` writes
    Manifest {
        /// The manifest
        file: PathBuf,
        #[command(flatten)]
        options: ImportOptions,
    },
}

impl Import {
    /// What stands behind `callgate import`, as the configuration has it.
    pub(crate) fn read(arguments: &[String]) -> anyhow::Result<Self> {
        let line = Line::try_parse_from(arguments).map_err(|error| {
            let words = error.to_string();
            let words = words.lines().next().unwrap_or_default().trim_start_matches("error: ");
            hinted(
                format!("`arguments`: {words}"),
                "they are those of `callgate import`, such as `[\"openrpc\", \"openrpc.json\"]`",
            )
        })?;
        Ok(line.import)
    }

    /// What every source has.
    pub(crate) fn options(&self) -> &ImportOptions {
        match self {
            Self::Openrpc { options, .. }
            | Self::Introspect { options, .. }
            | Self::Drupal { options, .. }
            | Self::Php { options, .. }
            | Self::Festi { options, .. }
            | Self::Manifest { options, .. } => options,
        }
    }
}

/// The description of a Drupal site that is read.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum DrupalDescription {
    /// The tools of `jsonrpc_mcp`: methods that are marked as tools
    #[default]
    Tools,
    /// All methods of `jsonrpc_discovery` that the user who asks may use, marked or not
    Discovery,
}

impl From<DrupalDescription> for drupal::Module {
    fn from(description: DrupalDescription) -> Self {
        match description {
            DrupalDescription::Tools => Self::Mcp,
            DrupalDescription::Discovery => Self::Discovery,
        }
    }
}

#[derive(Debug, Default, Args)]
pub(crate) struct ImportOptions {
    /// What runs the methods; by default `default`, or what a manifest says
    #[arg(long, value_name = "NAME")]
    pub(crate) upstream: Option<String>,
    /// Only methods whose id is like this, such as `user.*`; may repeat
    #[arg(long, value_name = "PATTERN")]
    select: Vec<String>,
    /// No methods whose id is like this; may repeat
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// A section and the mask that callers need on it, for methods of which the source names no
    /// sections; without a mask, read for what only reads and write for the rest. May repeat, all must
    /// hold; made if it is not there
    #[arg(long = "section", value_name = "SECTION[:MASK]", value_parser = section_and_need)]
    sections: Vec<(String, Needed)>,
    /// Leave out the output schemas of the source, so that results are not checked against them
    #[arg(long)]
    no_output_schemas: bool,
    /// Delete methods that the source no longer has, instead of hiding them; not with `--watch`
    #[arg(long)]
    pub(crate) prune: bool,
    /// Show what would change, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Read the source again and again, every 30 seconds unless said, until Ctrl-C
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true,
        default_missing_value = "30", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) watch: Option<u32>,
}

impl ImportOptions {
    pub(crate) fn to_import(&self) -> callgate_import::ImportOptions {
        let selection = Selection { select: self.select.clone(), exclude: self.exclude.clone() };
        callgate_import::ImportOptions {
            selection,
            sections: self.sections.clone(),
            no_output_schemas: self.no_output_schemas,
            prune: self.prune,
        }
    }
}

/// An import as the configuration has it, without the program's name before it.
#[derive(Debug, Parser)]
#[command(name = "import", about = "", no_binary_name = true, disable_help_flag = true)]
struct Line {
    #[command(subcommand)]
    import: Import,
}

fn section_and_need(text: &str) -> Result<(String, Needed), String> {
    if text.contains(':') {
        return section_and_mask(text).map(|(section, mask)| (section, Needed::Mask(mask)));
    }
    if text.trim().is_empty() {
        return Err("expected the name of a section".to_owned());
    }
    Ok((text.to_owned(), Needed::BySafety))
}
