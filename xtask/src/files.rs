//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Directories with Rust source, apart from `fuzz`.
pub(crate) const SOURCE: [&str; 4] = ["benches", "crates", "examples", "xtask"];

/// Returns the files with an extension that are in a directory. Does not look into subdirectories.
pub(crate) fn files_in(directory: &Path, extension: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = entries(directory)?;
    files.retain(|path| path.extension().is_some_and(|it| it == extension));
    Ok(files)
}

/// Returns the files with an extension that are below a directory.
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

/// Returns a problem for each source file of a crate that no `mod` line names, and that is
/// therefore not compiled.
pub(crate) fn orphans(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    for package in entries(&root.join("crates"))?.into_iter().filter(|path| path.is_dir()) {
        for file in files_below(&package.join("src"), "rs")? {
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            let directory = file.parent().unwrap_or(root);
            let is_root = matches!(&*name, "lib" | "main") || directory.ends_with("bin");
            let parents = [
                directory.join("lib.rs"),
                directory.join("main.rs"),
                directory.with_extension("rs"),
            ];
            let declares = |parent: &PathBuf| {
                read(parent).is_ok_and(|text| {
                    text.contains(&format!("mod {name};"))
                        || text.contains(&format!("#[path = \"{name}.rs\"]"))
                })
            };
            if !is_root && !parents.iter().any(declares) {
                let path = file.strip_prefix(root).unwrap_or(&file).display();
                problems.push(format!("{path}: no `mod` line names this file"));
            }
        }
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_a_mod_line_are_reported() {
        let root = tempfile::tempdir().unwrap();
        let source = root.path().join("crates/a/src");
        fs::create_dir_all(source.join("b")).unwrap();
        for (file, text) in
            [("lib.rs", "mod b;"), ("b.rs", "pub(crate) mod c;"), ("b/c.rs", ""), ("b/d.rs", "")]
        {
            fs::write(source.join(file), text).unwrap();
        }
        let problem = "crates/a/src/b/d.rs: no `mod` line names this file";
        assert_eq!(orphans(root.path()).unwrap(), [problem]);
        assert_eq!(orphans(&crate::root()).unwrap(), [] as [&str; 0]);
    }
}
