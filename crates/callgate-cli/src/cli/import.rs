//! `callgate import`

use std::path::PathBuf;

use callgate::model::ParamStyle;
use callgate_import::drupal::Module;
use callgate_import::openrpc::{Reference, parse_reference};
use callgate_import::{RequiredMask, Selection, SourceParams};
use callgate_registry::TableNames;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};

use super::values::section_and_mask;
use crate::commands::ServiceOptions;
use crate::error_hints::hinted;

/// Default value of `--from`: the description that is read from a Drupal site.
pub(super) const DRUPAL_TOOLS: &str = "tools";

#[derive(Debug, Subcommand)]
pub(crate) enum ImportCommand {
    #[command(flatten)]
    From(Box<Import>),
    /// List changes that wait for approval
    ///
    /// Lists the changes of imports that have `policy = "hold"` in their table `[imports.NAME]` of
    /// the configuration.
    #[command(after_long_help = "Example:\n  callgate import pending")]
    Pending {
        /// Print JSON, one object per line
        #[arg(long)]
        json: bool,
    },
    /// Apply the changes of an import that wait for approval
    ///
    /// Applies exactly the changes that `pending` listed with this digest. If the source or the registry has changed
    /// since, prints the new changes and writes nothing.
    #[command(after_long_help = "Example:\n  callgate import approve shop DIGEST")]
    Approve {
        /// Name of the import in the configuration
        name: String,
        /// Digest of the changes, which `pending` and the log print
        digest: String,
    },
    /// Run an import of the configuration; `callgate serve` sends the name of the import on standard input
    #[command(hide = true)]
    Process,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Import {
    /// Import from an OpenRPC document of any version
    ///
    /// If the source is a URL, reads the result of `rpc.discover`, or the document at this URL.
    /// Other documents are read only if `--reference` names them. Notifications and
    /// deprecated methods are imported, but are not tools.
    #[command(after_long_help = "Example:\n  callgate import openrpc openrpc.json --dry-run")]
    Openrpc {
        /// File, or URL of a service or a document [default: the URL of the upstream]
        #[arg(value_name = "FILE|URL")]
        source: Option<String>,
        /// Name by which a `$ref` refers to another document, such as `./types.json`, and the
        /// file that contains this document; may be repeated
        #[arg(long = "reference", value_name = "NAME=FILE", value_parser = parse_reference)]
        references: Vec<Reference>,
        /// Name of this document, if another source of the upstream has the same title [default: its title]
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        service: ServiceOptions,
        #[command(flatten)]
        options: ImportOptions,
    },
    /// Import from a service with `system.listMethods`
    ///
    /// Also reads `system.methodSignature` and `system.methodHelp`, if the service has them. A method without
    /// a signature accepts any parameters, by position.
    #[command(
        after_long_help = "Example:\n  callgate import introspect http://localhost:6800/jsonrpc"
    )]
    Introspect {
        /// URL of the service [default: the URL of the upstream]
        url: Option<String>,
        #[command(flatten)]
        service: ServiceOptions,
        #[command(flatten)]
        options: ImportOptions,
    },
    /// Import from a Drupal site with the module `jsonrpc_mcp`
    ///
    /// By default, reads the methods that are marked as tools. With `--from discovery`, reads all
    /// methods that the requesting user may call. The upstream needs the URL of the site with the path
    /// `/jsonrpc`. The site may list different methods for different users.
    #[command(after_long_help = "Example:\n  callgate import drupal https://example.com")]
    Drupal {
        /// URL of the site, or of its endpoint `/jsonrpc` [default: the URL of the upstream]
        url: Option<String>,
        /// Description to read
        #[arg(long, value_parser = drupal_module(), default_value = DRUPAL_TOOLS)]
        from: Module,
        #[command(flatten)]
        service: ServiceOptions,
        #[command(flatten)]
        options: ImportOptions,
    },
    /// Import from PHP source: `@rpc` doc comments, attributes `JsonRpcMethod` and `McpTool`
    ///
    /// Runs no code. Reads types, defaults and classes from signatures, doc comments and attributes. Reports
    /// and skips files that do not parse.
    #[command(after_long_help = "Example:\n  callgate import php src --upstream shop")]
    Php {
        /// Directory; `vendor`, `node_modules` and names that begin with a dot are skipped
        directory: PathBuf,
        /// Name of this source, if another source of the upstream has the same name [default: the name of the
        /// directory]
        #[arg(long)]
        name: Option<String>,
        /// Also read `vendor` and `node_modules`
        #[arg(long)]
        vendor: bool,
        /// Name or relative path of a directory or file to skip; may be repeated
        #[arg(long, value_name = "PATH")]
        skip: Vec<PathBuf>,
        #[command(flatten)]
        options: ImportOptions,
    },
    /// Import from the database of a Festi application, without changing the database
    ///
    /// Imports methods, with the sections and masks of their actions. Also imports the sections, roles and
    /// grants that the registry lacks.
    #[command(after_long_help = "Example:\n  callgate import festi mysql://reader@localhost/site \
        --password-file password")]
    Festi {
        /// URL: `mysql://…`, `postgres://…`, `mssql://…` or `sqlite:PATH`
        #[arg(value_name = "DATABASE-URL")]
        database_url: String,
        /// File that contains the password of the database
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
        /// Prefix of the section and permission tables
        #[arg(long, value_name = "PREFIX", default_value = "festi_", value_parser = TableNames::with_prefix)]
        table_prefix: TableNames,
        /// Also import the users of the application and their grants
        #[arg(long)]
        users: bool,
        #[command(flatten)]
        options: ImportOptions,
    },
    /// Import from a manifest in TOML or JSON, such as the output of `callgate export`
    #[command(after_long_help = "Example:\n  callgate import manifest methods.toml")]
    Manifest {
        /// Manifest
        file: PathBuf,
        /// Name of this manifest, if another source has the same name [default: the name in the manifest]
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        options: ImportOptions,
    },
}

impl Import {
    /// Parses the value of `arguments` in `[imports.NAME]`.
    pub(crate) fn read(arguments: &[String]) -> anyhow::Result<Self> {
        let line = ImportCommandLine::try_parse_from(arguments).map_err(|error| {
            let message = error.to_string();
            let message = message.lines().next().unwrap_or_default().trim_start_matches("error: ");
            hinted(
                format!("`arguments`: {message}"),
                "expected the arguments of `callgate import`, such as `[\"openrpc\", \"openrpc.json\"]`",
            )
        })?;
        Ok(line.import)
    }

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

/// Returns the parser of `--from`: the description that is read from a Drupal site.
pub(super) fn drupal_module() -> impl TypedValueParser<Value = Module> {
    const DISCOVERY: &str = "discovery";
    let tools = "Tools of `jsonrpc_mcp`: methods that are marked as tools";
    let discovery = "All methods of `jsonrpc_discovery` that the requesting user may call";
    PossibleValuesParser::new([
        PossibleValue::new(DRUPAL_TOOLS).help(tools),
        PossibleValue::new(DISCOVERY).help(discovery),
    ])
    .map(|name| if name == DISCOVERY { Module::Discovery } else { Module::Mcp })
}

/// What `--review` does with methods whose safety is a guess or unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Review {
    /// Lists the methods
    List,
    /// Imports the methods and approves the guesses
    Approve,
}

#[derive(Debug, Default, Args)]
pub(crate) struct ImportOptions {
    /// Upstream that runs the methods [default: `default`, or the upstream that a manifest names]
    #[arg(long, value_name = "UPSTREAM")]
    pub(crate) upstream: Option<String>,
    /// Prefix of the ids, such as `test.`, for a service that has the same methods as another
    /// service. Calls to the service use the names without the prefix
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    prefix: Option<String>,
    /// Import only methods whose name in the source matches this pattern, such as `user.*`; may
    /// be repeated
    #[arg(long, value_name = "PATTERN")]
    select: Vec<String>,
    /// Do not import methods whose name in the source matches this pattern; may be repeated
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Section and mask that callers need, for methods without sections in the source. For tools of
    /// the Drupal module `jsonrpc_mcp`, callers need this mask in addition to the masks in the
    /// source. If the option is repeated, callers need all given masks. Without a mask, read-only
    /// methods need `read`, and other methods need `write`. A section that does not exist is
    /// created
    #[arg(long = "section", value_name = "SECTION[:MASK]", value_parser = section_and_required_mask)]
    sections: Vec<(String, RequiredMask)>,
    /// How the parameters of all methods of this source are sent: `name` (as an object), or
    /// `position`, `either` or `position-null` (as a list). The option `--params-by` of
    /// `callgate method set` describes these styles. Later imports of the source keep the style.
    /// With `described`, parameters are sent as the source describes for each method
    #[arg(long, value_name = "STYLE", alias = "params", value_parser = source_params)]
    params_by: Option<SourceParams>,
    /// Do not import output schemas, so that results are not checked against them
    #[arg(long)]
    no_output_schemas: bool,
    /// Delete methods that the source no longer has, instead of hiding them
    #[arg(long)]
    pub(crate) prune: bool,
    /// Print the changes without writing them
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// List the methods whose safety is a guess or unknown, and write nothing; `--review=approve` imports the methods
    /// and approves the guesses
    #[arg(long, value_name = "ACTION", num_args = 0..=1, require_equals = true,
        default_missing_value = "list", conflicts_with_all = ["dry_run", "watch"])]
    pub(crate) review: Option<Review>,
    /// Repeat the import until Ctrl-C, by default every 30 seconds
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true,
        default_missing_value = "30", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) watch: Option<u32>,
}

impl ImportOptions {
    pub(crate) fn to_import(&self) -> callgate_import::ImportOptions {
        let selection = Selection { select: self.select.clone(), exclude: self.exclude.clone() };
        callgate_import::ImportOptions {
            prefix: self.prefix.clone().unwrap_or_default(),
            selection,
            sections: self.sections.clone(),
            params_by: self.params_by,
            no_output_schemas: self.no_output_schemas,
            prune: self.prune,
            approves_guesses: self.review == Some(Review::Approve),
            upstreams: None,
        }
    }
}

/// Command line of an import, without the name of the program.
#[derive(Debug, Parser)]
#[command(name = "import", about = "", no_binary_name = true, disable_help_flag = true)]
struct ImportCommandLine {
    #[command(subcommand)]
    import: Import,
}

fn prefix(text: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-/:".contains(c);
    if text.chars().all(is_allowed) {
        return Ok(text.to_owned());
    }
    Err("expected ASCII letters and digits, `.`, `_`, `-`, `/` and `:`".to_owned())
}

fn source_params(text: &str) -> Result<SourceParams, String> {
    if text == "described" {
        return Ok(SourceParams::Described);
    }
    text.parse().map(SourceParams::Style).map_err(|_| {
        let styles = ParamStyle::ALL.map(ParamStyle::as_str).join("`, `");
        format!("expected `{styles}` or `described`")
    })
}

fn section_and_required_mask(text: &str) -> Result<(String, RequiredMask), String> {
    if text.contains(':') {
        return section_and_mask(text).map(|(section, mask)| (section, RequiredMask::Mask(mask)));
    }
    if text.trim().is_empty() {
        return Err("expected the name of a section".to_owned());
    }
    Ok((text.to_owned(), RequiredMask::BySafety))
}
