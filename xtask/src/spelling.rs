//! Checks the spelling of documents and comments with hunspell.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::Context as _;
use callgate_test_support::{debian, debian_package};

use crate::documents::prose;
use crate::files::{SOURCE, files_below, files_in, read};
use crate::root;

/// Words that the dictionary lacks.
const WORDS: &str = include_str!("words.txt");

/// Directory of the system's dictionaries.
const DICTIONARIES: &str = "/usr/share/hunspell";

/// Minimum length of a checked word.
const MIN_LENGTH: usize = 4;

/// Returns the problems, one per line. Debian packages are unpacked below `tmp`.
pub(crate) fn problems(tmp: &Path) -> anyhow::Result<Vec<String>> {
    let root = root().canonicalize()?;
    let mut found = BTreeMap::new();
    let mut pages = files_in(&root, "md")?;
    for directory in SOURCE.into_iter().chain(["docs"]) {
        pages.extend(files_below(&root.join(directory), "md")?);
        for path in files_below(&root.join(directory), "rs")? {
            add(comments(&read(&path)?), &path, &mut found);
        }
    }
    for path in pages {
        add(prose(&read(&path)?), &path, &mut found);
    }
    let known: BTreeSet<&str> = WORDS.lines().collect();
    let unknown = unknown(tmp, &found.keys().map(String::as_str).collect::<Vec<_>>())?;
    let misspelled = unknown.iter().filter(|word| !known.contains(word.to_lowercase().as_str()));
    let problems = misspelled.map(|word| {
        let page = found.get(word).and_then(|page| page.strip_prefix(&root).ok());
        let page = page.unwrap_or_else(|| Path::new("somewhere"));
        format!("{}: `{word}` is misspelled, or is missing in xtask/src/words.txt", page.display())
    });
    Ok(problems.collect())
}

/// Returns the command of hunspell with its dictionary, from the system or from Debian packages.
pub(crate) fn hunspell(tmp: &Path) -> Command {
    let dictionaries = Path::new(DICTIONARIES);
    let mut hunspell = debian(tmp, "hunspell", "hunspell");
    hunspell.args(["-l", "-i", "utf-8", "-d", "en_GB"]);
    if !dictionaries.join("en_GB.dic").exists() {
        let package = debian_package(tmp, "hunspell-en-gb");
        hunspell.env("DICPATH", package.join(DICTIONARIES.trim_start_matches('/')));
    }
    hunspell
}

/// Returns the words that hunspell does not know.
fn unknown(tmp: &Path, words: &[&str]) -> anyhow::Result<Vec<String>> {
    let mut hunspell = hunspell(tmp);
    let mut child = hunspell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().context("stdin is not piped")?;
    let text = words.join("\n");
    let writer = thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output()?;
    anyhow::ensure!(output.status.success(), "hunspell failed: {}", output.status);
    writer.join().map_err(|_| anyhow::anyhow!("hunspell read no input"))??;
    Ok(String::from_utf8(output.stdout)?.lines().map(ToOwned::to_owned).collect())
}

fn add<'t>(
    lines: impl Iterator<Item = &'t str>,
    path: &Path,
    found: &mut BTreeMap<String, PathBuf>,
) {
    for word in lines.flat_map(words) {
        found.entry(word.to_owned()).or_insert_with(|| path.to_owned());
    }
}

/// Returns the comments of a source file, without code blocks.
fn comments(text: &str) -> impl Iterator<Item = &str> {
    let comments = text.lines().filter_map(|line| line.trim_start().strip_prefix("//"));
    let mut is_code = false;
    comments.filter(move |line| {
        let is_fence = line.trim_start_matches(['/', '!', ' ']).starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Returns the words of a line, without code, names with inner capitals, URLs and link targets.
fn words(line: &str) -> Vec<&str> {
    let outside = line.split('`').step_by(2);
    let tokens = outside.flat_map(|part| part.split([' ', '\t', '|', '"']));
    let tokens = tokens.filter(|token| !token.contains("://"));
    let tokens = tokens.map(|token| token.split("](").next().unwrap_or(token));
    let is_part = |c: char| c.is_alphabetic() || c == '\'' || c == '’';
    let is_plain =
        |token: &&str| !token.contains(['_', '@', '=', '$', '\\', '<', '/', '&', '#', '{']);
    let words = tokens.filter(is_plain).flat_map(move |token| token.split(move |c| !is_part(c)));
    let words = words.map(|word| word.trim_matches(['\'', '’']).trim_end_matches("'s"));
    let is_word =
        |word: &&str| word.len() >= MIN_LENGTH && !word.chars().skip(1).any(char::is_uppercase);
    words.filter(is_word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_of_prose_are_checked() {
        let line = "/// Returns the `tool_name`s of [a page](docs/page.md), see https://example.com or JsonRpc's.";
        assert_eq!(words(line), ["Returns", "page"]);
        assert_eq!(comments("let wrng = 1; // not at the start\n/// wrong\n").count(), 1);
        assert_eq!(prose("text\n```\ncode\n```\nmore").collect::<Vec<_>>(), ["text", "more"]);
    }
}
