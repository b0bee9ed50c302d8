//! The documents: links that lead somewhere, and command lines that can be run.
//!
//! The command lines of the program itself are tested where they are defined, in `callgate-cli`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value;

use crate::dependencies::{self, is_own, packages};
use crate::root;

/// Returns what is wrong, a line each.
pub(crate) fn problems() -> anyhow::Result<Vec<String>> {
    let root = root().canonicalize()?;
    let mut pages = Vec::new();
    for directory in ["", "docs", "examples"] {
        collect(&root.join(directory), !directory.is_empty(), &mut pages)?;
    }
    let metadata = dependencies::metadata()?;
    let mut problems = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page)?;
        let shown = page.strip_prefix(&root).unwrap_or(page).display();
        let mut note = |problem: String| problems.push(format!("{shown}: {problem}"));
        for link in links(&text) {
            if let Err(problem) = check_link(page, &text, link) {
                note(format!("link `{link}`: {problem}"));
            }
        }
        for line in command_lines(&text) {
            if let Err(problem) = check_cargo(&line, &metadata) {
                note(format!("`{line}`: {problem}"));
            }
        }
    }
    Ok(problems)
}

/// The Markdown files of a directory, and of those below it if asked for.
fn collect(directory: &Path, is_deep: bool, pages: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let entries = fs::read_dir(directory);
    for entry in entries.with_context(|| format!("cannot read {}", directory.display()))? {
        let path = entry?.path();
        if path.is_dir() && is_deep {
            collect(&path, is_deep, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    Ok(())
}

/// The lines outside of blocks of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The targets of `[text](target)`.
fn links(text: &str) -> Vec<&str> {
    let targets = prose(text).flat_map(|line| line.split("](").skip(1));
    targets.filter_map(|rest| rest.split(')').next()).collect()
}

fn check_link(page: &Path, text: &str, link: &str) -> Result<(), String> {
    if ["http://", "https://", "mailto:"].iter().any(|scheme| link.starts_with(scheme)) {
        return Ok(());
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = page.parent().unwrap_or(page).join(file);
    let other = match file {
        "" => None,
        _ if !target.exists() => return Err("there is no such file".to_owned()),
        _ if anchor.is_empty() => return Ok(()),
        _ => Some(fs::read_to_string(&target).map_err(|error| error.to_string())?),
    };
    let headings = prose(other.as_deref().unwrap_or(text)).filter(|line| line.starts_with('#'));
    if headings.map(slug).any(|slug| slug == anchor) {
        Ok(())
    } else {
        Err("there is no such heading".to_owned())
    }
}

/// The anchor that forges give a heading.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The commands of cargo in blocks of code.
fn command_lines(text: &str) -> Vec<String> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if is_code {
            let line = line.trim_start_matches("$ ");
            let parts = line.split(" && ").filter(|part| part.starts_with("cargo "));
            lines.extend(parts.map(|part| part.split(" #").next().unwrap_or(part).to_owned()));
        }
    }
    lines
}

/// Whether what a command of cargo names is in the workspace.
fn check_cargo(line: &str, metadata: &Value) -> Result<(), String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let words: &[&str] = words.split(|word| *word == "--").next().unwrap_or_default();
    // In a package of the reader's own.
    if matches!(words.get(1), Some(&("add" | "new" | "fuzz"))) {
        return Ok(());
    }
    if words.get(1) == Some(&"xtask") {
        let command = words.get(2).copied().unwrap_or_default();
        let known = crate::USAGE.contains(&format!("cargo xtask {command}"));
        return if known { Ok(()) } else { Err("xtask has no such command".to_owned()) };
    }
    let own: Vec<&Value> = packages(metadata).filter(|package| is_own(package)).collect();
    let names = |key: &str| -> BTreeSet<String> {
        let names = own.iter().flat_map(|package| match key {
            "package" => vec![package["name"].clone()],
            "features" => package["features"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|it| it.0.clone().into())
                .collect(),
            kind => package["targets"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|target| {
                    target["kind"].as_array().is_some_and(|kinds| kinds.contains(&kind.into()))
                })
                .map(|target| target["name"].clone())
                .collect(),
        });
        names.filter_map(|name| name.as_str().map(ToOwned::to_owned)).collect()
    };
    for (flag, value) in words.iter().zip(words.iter().skip(1)) {
        let kind = match *flag {
            "-p" | "--package" => "package",
            "--features" => "features",
            "--example" => "example",
            "--bin" => "bin",
            "--test" => "test",
            "--bench" => "bench",
            "--path" if !root().join(value).is_dir() => {
                return Err(format!("no directory `{value}`"));
            }
            _ => continue,
        };
        let known = names(kind);
        if let Some(unknown) = value.split(',').find(|name| !known.contains(*name)) {
            return Err(format!("the workspace has no {kind} `{unknown}`"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A page\n\n## One, two\n\n[a](#one-two) [b](#three)\n```console\n$ cargo \
                        run -p callgate-cli -- serve\n[no](link)\n```\n";

    #[test]
    fn links_and_headings_are_found() {
        assert_eq!(links(PAGE), ["#one-two", "#three"]);
        let page = Path::new("page.md");
        assert_eq!(check_link(page, PAGE, "#one-two"), Ok(()));
        assert!(check_link(page, PAGE, "#three").is_err());
        assert!(check_link(page, PAGE, "nowhere/at-all.md").is_err());
    }

    #[test]
    fn commands_name_what_is_there() {
        let metadata = dependencies::metadata().unwrap();
        assert_eq!(command_lines(PAGE), ["cargo run -p callgate-cli -- serve"]);
        for (line, is_right) in [
            ("cargo run -p callgate-cli -- -p nothing", true),
            ("cargo run -p nothing", false),
            ("cargo xtask test", true),
            ("cargo xtask nothing", false),
            ("cargo build --features full", true),
            ("cargo build --features nothing", false),
        ] {
            assert_eq!(check_cargo(line, &metadata).is_ok(), is_right, "{line}");
        }
    }
}
