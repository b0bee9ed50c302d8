//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Directories with Rust source, apart from `fuzz`.
pub(crate) const SOURCE: [&str; 4] = ["benches", "crates", "examples", "xtask"];

/// Returns the files of a directory with an extension. Does not look into subdirectories.
pub(crate) fn files_in(directory: &Path, extension: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = entries(directory)?;
    files.retain(|path| path.extension().is_some_and(|it| it == extension));
    Ok(files)
}

/// Returns the files below a directory with an extension.
pub(crate) fn files_below(directory: &Path, extension: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = files_in(directory, extension)?;
    for directory in entries(directory)?.iter().filter(|path| path.is_dir()) {
        files.extend(files_below(directory, extension)?);
    }
    Ok(files)
}

/// Reads a text file.
pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))
}

fn entries(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)
        .with_context(|| format!("failed to read {}", directory.display()))?;
    let mut paths =
        entries.map(|entry| entry.map(|it| it.path())).collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    Ok(paths)
}
