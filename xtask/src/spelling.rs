//! The spelling of the documents and of comments, by hunspell.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, thread};

use anyhow::Context as _;
use callgate_test_support::{debian, debian_package};

use crate::documents::prose;
use crate::root;

/// Words that the dictionary does not have.
const WORDS: &str = include_str!("words.txt");

/// Where a system has its dictionaries.
const DICTIONARIES: &str = "/usr/share/hunspell";

/// The shortest word that is looked up.
const SHORTEST: usize = 4;

/// Returns what is wrong, a line each. `tmp` is where packages of Debian are unpacked.
pub(crate) fn problems(tmp: &Path) -> anyhow::Result<Vec<String>> {
    let root = root().canonicalize()?;
    let mut found = BTreeMap::new();
    for name in ["", "benches", "crates", "docs", "examples", "xtask"] {
        collect(&root.join(name), !name.is_empty(), &mut found)?;
    }
    let known: BTreeSet<&str> = WORDS.lines().collect();
    let unknown = unknown(tmp, &found.keys().map(String::as_str).collect::<Vec<_>>())?;
    let wrong = unknown.iter().filter(|word| !known.contains(word.to_lowercase().as_str()));
    let problems = wrong.map(|word| {
        let page = found.get(word).and_then(|page| page.strip_prefix(&root).ok());
        let page = page.unwrap_or_else(|| Path::new("somewhere"));
        format!("{}: `{word}` is misspelled, or is missing in xtask/src/words.txt", page.display())
    });
    Ok(problems.collect())
}

/// hunspell with its dictionary: the system's, or packages of Debian.
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

/// The words that hunspell does not know.
fn unknown(tmp: &Path, words: &[&str]) -> anyhow::Result<Vec<String>> {
    let mut hunspell = hunspell(tmp);
    let mut child = hunspell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().context("hunspell has no input")?;
    let text = words.join("\n");
    let writing = thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output()?;
    anyhow::ensure!(output.status.success(), "hunspell failed: {}", output.status);
    writing.join().map_err(|_| anyhow::anyhow!("hunspell read nothing"))??;
    Ok(String::from_utf8(output.stdout)?.lines().map(ToOwned::to_owned).collect())
}

/// Adds the words of the files of a directory, and of those below it if asked for, each with a file that has it.
fn collect(
    directory: &Path,
    is_deep: bool,
    found: &mut BTreeMap<String, PathBuf>,
) -> anyhow::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let kind = path.extension().and_then(|extension| extension.to_str());
        match kind {
            _ if path.is_dir() && is_deep => collect(&path, is_deep, found)?,
            Some("md") => add(prose(&fs::read_to_string(&path)?), &path, found),
            Some("rs") => add(comments(&fs::read_to_string(&path)?), &path, found),
            _ => {}
        }
    }
    Ok(())
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

/// The comments of a program.
fn comments(text: &str) -> impl Iterator<Item = &str> {
    let comments = text.lines().filter_map(|line| line.trim_start().strip_prefix("//"));
    let mut is_code = false;
    comments.filter(move |line| {
        let is_fence = line.trim_start_matches(['/', '!', ' ']).starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The words of a line, without code, names with capitals inside, addresses and the targets of links.
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
        |word: &&str| word.len() >= SHORTEST && !word.chars().skip(1).any(char::is_uppercase);
    words.filter(is_word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_prose() {
        let line = "/// Returns the `tool_name`s of [a page](docs/page.md), see https://example.com or JsonRpc's.";
        assert_eq!(words(line), ["Returns", "page"]);
        assert_eq!(comments("let wrng = 1; // not at the start\n/// wrong\n").count(), 1);
        assert_eq!(prose("text\n```\ncode\n```\nmore").collect::<Vec<_>>(), ["text", "more"]);
    }
}
