//! `callgate import openrpc|manifest`

use anyhow::Context as _;
use callgate::LOCAL;
use callgate_registry::DEFAULT_UPSTREAM;

use crate::cli::{Import, ImportOptions};
use crate::config::Config;
use crate::errors::hinted;
use crate::import::openrpc::Reading;
use crate::import::{self, Options, Source};
use crate::printer::Printer;
use crate::registry;

pub(crate) async fn run(
    config: &Config,
    import: Import,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let (source, options) = match &import {
        Import::Openrpc { file, output_schemas, options } => {
            let upstream = options.upstream.as_deref().unwrap_or(DEFAULT_UPSTREAM);
            refuse_local(upstream)?;
            let reading = Reading { upstream, output_schemas: *output_schemas };
            (import::openrpc::read(&import::read(file)?, reading), (file, options))
        }
        Import::Manifest { file, options } => {
            let text = import::read(file)?;
            (import::manifest::read(&text, options.upstream.as_deref()), (file, options))
        }
    };
    let (file, options) = options;
    let source: Source = source.with_context(|| format!("`{}`", file.display()))?;
    let store = registry::open(config).await?;
    import::import(&store, source, &settled(options), printer).await
}

fn settled(options: &ImportOptions) -> Options<'_> {
    Options {
        selection: &options.selection,
        sections: &options.sections,
        prune: options.prune,
        dry_run: options.dry_run,
    }
}

fn refuse_local(upstream: &str) -> anyhow::Result<()> {
    if upstream != LOCAL {
        return Ok(());
    }
    Err(hinted(
        "`local` is the upstream of functions in the program itself",
        "name another with `--upstream`",
    ))
}
