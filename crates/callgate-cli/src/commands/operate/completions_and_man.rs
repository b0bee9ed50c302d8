//! `callgate completions` and `callgate man`: files that are generated from the definition of the command line.

use anyhow::{Context as _, Result};

use crate::cli::{Cli, CompletionsArgs, ManArgs};
use crate::printer;

pub(crate) fn completions(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::definition(), "callgate", &mut script);
    printer::exact(String::from_utf8(script)?.trim_end());
    Ok(())
}

pub(crate) fn man(args: &ManArgs) -> Result<()> {
    let directory = &args.directory;
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Cli::definition(), directory))
        .with_context(|| format!("cannot write to `{}`", directory.display()))
}
