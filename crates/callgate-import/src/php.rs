//! Methods from PHP source: those with an `@rpc` tag or with attributes. PHP code is only parsed, never run.
//!
//! `syntax` parses each file into declarations, and `symbols` indexes the declarations of all files. `evaluate` and
//! `types` resolve constants and types. `doc_comment_methods` and `attribute_methods` read the methods, and
//! `common_method_parts` the parts that both have. `classes` reads the properties of classes that are used as types.

mod files;
mod syntax;

mod symbols;

mod evaluate;
mod types;

mod common_method_parts;

mod attribute_methods;
mod classes;
mod doc_comment_methods;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::hinted::hinted;
use crate::source::Source;
use crate::text::counted;
use common_method_parts::Reader;
use files::Files;
use symbols::Symbols;
use syntax::Parser;

/// How a directory of PHP source is read.
#[derive(Debug, Default)]
pub struct PhpOptions {
    /// Name of the source. Defaults to the name of the directory.
    pub name: Option<String>,
    /// Whether `vendor` and `node_modules` are read, too.
    pub vendor: bool,
    /// Directories and files to leave out, by name or by path relative to the directory.
    pub skip: Vec<PathBuf>,
}

/// Reads the PHP files in a directory. Runs on a blocking thread, because many files take seconds.
pub async fn read(
    directory: PathBuf,
    upstream: String,
    options: PhpOptions,
) -> anyhow::Result<Source> {
    let task = move || read_directory(&directory, &upstream, &options);
    tokio::task::spawn_blocking(task).await.context("failed to read the PHP files")?
}

fn read_directory(
    directory: &Path,
    upstream: &str,
    options: &PhpOptions,
) -> anyhow::Result<Source> {
    let display = directory.display();
    let root = directory.canonicalize().with_context(|| format!("cannot read `{display}`"))?;
    if !root.is_dir() {
        return Err(hinted(
            format!("`{display}` is not a directory"),
            "use the directory of the file; `--select` imports only some of the methods",
        ));
    }
    let mut files = Files::find(&root, options)?;
    let count = files.paths.len();
    let mut symbols = Symbols::default();
    let mut parser = Parser::new()?;
    for path in std::mem::take(&mut files.paths) {
        let result = files.read(&root, &path).and_then(|text| {
            let (file, error) = syntax::read(&mut parser, &text, &path.to_string_lossy())?;
            symbols.add(file);
            error.map_or(Ok(()), Err)
        });
        if let Err(error) = result {
            files.add_unread(&path, format!("{error:#}"));
        }
    }
    let name = root.file_name().map(|name| name.to_string_lossy());
    let name = options.name.as_deref().map(Into::into).or(name).unwrap_or_default();
    let mut source = methods_of(&symbols, &format!("PHP source `{name}`"), upstream)?;
    source.notes.insert(0, counted(count, "PHP file"));
    source.unread = files.unread;
    if files.links > 0 {
        source.notes.push(format!("note: ignored {}", counted(files.links, "symbolic link")));
    }
    Ok(source)
}

fn methods_of(symbols: &Symbols, name: &str, upstream: &str) -> anyhow::Result<Source> {
    let mut reader = Reader::new(symbols);
    let mut source = Source::new(name, upstream);
    for class in &symbols.classes {
        let mut methods = doc_comment_methods::read(&mut reader, class);
        methods.extend(attribute_methods::read(&mut reader, class));
        for method in methods {
            source.add(method)?;
        }
    }
    source.add_types(classes::read(&mut reader))?;
    if reader.permissions > 0 {
        reader.note(format!(
            "note: Drupal requires permissions for {}; `--section` adds a check in Callgate",
            counted(reader.permissions, "method")
        ));
    }
    source.notes = reader.notes;
    if reader.omitted_notes > 0 {
        source.notes.push(format!("note: and {} more notes", reader.omitted_notes));
    }
    Ok(source)
}
