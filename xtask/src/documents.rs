//! Checks the documents: every link resolves, the table of contents lists every page of the book, and every cargo
//! command refers to packages and targets that exist.
//!
//! The command lines of the program itself are tested where they are defined, in `callgate-cli`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::dependencies::{self, is_workspace_package, packages};
use crate::files::{files_below, files_in};
use crate::root;
use crate::test::output;

/// Directory of the book.
const BOOK: &str = "docs";

/// Table of contents of the book, which mdBook reads.
const SUMMARY: &str = "SUMMARY.md";

/// Directory of the book with pages about the code.
const INTERNALS: &str = "internals";

/// Page with tables of functions and their files.
const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// Returns the problems, one per line.
pub(crate) fn problems() -> anyhow::Result<Vec<String>> {
    let root = root().canonicalize()?;
    let book = root.join(BOOK);
    let mut pages = files_in(&root, "md")?;
    for directory in [BOOK, "examples"] {
        pages.extend(files_below(&root.join(directory), "md")?);
    }
    let metadata = dependencies::metadata()?;
    let summary = fs::read_to_string(book.join(SUMMARY))?;
    let in_book = pages.iter().filter_map(|page| page.strip_prefix(&book).ok());
    let in_book: Vec<String> = in_book.map(|page| page.display().to_string()).collect();
    let mut problems = unlisted(&summary, &in_book);
    problems.extend(missing_functions(&root, &fs::read_to_string(root.join(ARCHITECTURE))?));
    let sources = sources(&root)?;
    for page in &pages {
        let text = fs::read_to_string(page)?;
        let path = page.strip_prefix(&root).unwrap_or(page).display();
        let mut report = |problem: String| problems.push(format!("{path}: {problem}"));
        for link in links(&text) {
            let is_checked =
                check_link(page, &text, link).and_then(|()| check_scope(&book, page, link));
            if let Err(problem) = is_checked {
                report(format!("link `{link}`: {problem}"));
            }
        }
        if page.ends_with(ARCHITECTURE) || page.starts_with(book.join(INTERNALS)) {
            missing_files(&sources, &text).into_iter().for_each(&mut report);
        }
        for line in command_lines(&text) {
            if let Err(problem) = check_cargo(&line, &metadata) {
                report(format!("`{line}`: {problem}"));
            }
        }
    }
    Ok(problems)
}

/// Returns the pages that the table of contents does not list exactly once.
fn unlisted(summary: &str, pages: &[String]) -> Vec<String> {
    let listed = links(summary);
    let count = |page: &str| listed.iter().filter(|link| **link == page).count();
    let expected = pages.iter().filter(|page| *page != SUMMARY);
    let incorrect = expected.map(|page| (page, count(page))).filter(|(_, count)| *count != 1);
    incorrect
        .map(|(page, count)| format!("{BOOK}/{SUMMARY}: lists `{page}` {count} times"))
        .collect()
}

/// Returns the rows ``| `function` | `file` |`` whose file does not exist or does not define the function.
fn missing_functions(root: &Path, page: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = row.split('|').map(|cell| cell.trim().trim_matches('`')).skip(1);
        let (Some(function), Some(file)) = (cells.next(), cells.next()) else { continue };
        if !file.starts_with("callgate") || Path::new(file).extension().is_none() {
            continue;
        }
        let (owner, name) = function.rsplit_once("::").unwrap_or(("", function));
        let text = fs::read_to_string(root.join("crates").join(file)).unwrap_or_default();
        let is_defined = ["(", "<"].iter().any(|end| text.contains(&format!("fn {name}{end}")));
        // The name of a module does not occur in its own file.
        let is_type = owner.starts_with(char::is_uppercase);
        if !is_defined || is_type && !text.contains(owner) {
            problems.push(format!("{ARCHITECTURE}: there is no `{function}` in `{file}`"));
        }
    }
    problems
}

/// Returns the paths of the files that git tracks, each with a leading slash.
fn sources(root: &Path) -> anyhow::Result<Vec<String>> {
    let files = output(Command::new("git").arg("ls-files").current_dir(root))?;
    Ok(files.lines().map(|file| format!("/{file}")).collect())
}

/// Returns the Rust files that a page mentions as code but that do not exist. The beginning of a path may be omitted.
fn missing_files(sources: &[String], page: &str) -> Vec<String> {
    let code = prose(page).flat_map(|line| line.split('`').skip(1).step_by(2));
    let is_rust = |code: &&str| Path::new(code).extension().is_some_and(|it| it == "rs");
    let files = code.filter(is_rust).filter(|code| !code.contains(' '));
    let is_missing =
        |file: &&str| !sources.iter().any(|source| source.ends_with(&format!("/{file}")));
    files.filter(is_missing).map(|file| format!("there is no file `{file}`")).collect()
}

/// Checks that a link on a page of the book does not lead out of the book, because the built book has no other files.
fn check_scope(book: &Path, page: &Path, link: &str) -> Result<(), String> {
    let is_relative = !link.contains("://") && !link.starts_with('#');
    if !is_relative || !page.starts_with(book) {
        return Ok(());
    }
    let file = link.split('#').next().unwrap_or_default();
    let target = page.parent().unwrap_or(page).join(file).canonicalize();
    if target.is_ok_and(|target| target.starts_with(book)) {
        Ok(())
    } else {
        Err(format!("it leads out of {BOOK}/; write its path in backticks instead of a link"))
    }
}

/// Returns the lines of a page outside of code blocks.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Returns the targets of `[text](target)`.
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
    let linked_page = match file {
        "" => None,
        _ if !target.exists() => return Err("there is no such file".to_owned()),
        _ if anchor.is_empty() => return Ok(()),
        _ => Some(fs::read_to_string(&target).map_err(|error| error.to_string())?),
    };
    let headings =
        prose(linked_page.as_deref().unwrap_or(text)).filter(|line| line.starts_with('#'));
    if headings.map(slug).any(|slug| slug == anchor) {
        Ok(())
    } else {
        Err("there is no such heading".to_owned())
    }
}

/// Returns the anchor that code hosts and mdBook generate for a heading.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let allowed = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    allowed.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns the commands of cargo in code blocks and in inline code.
fn command_lines(text: &str) -> Vec<String> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        let commands: Vec<&str> = if is_code {
            let line = line.trim_start_matches("$ ").split(" #").next().unwrap_or_default();
            line.split(" && ").collect()
        } else {
            line.split('`').skip(1).step_by(2).flat_map(|code| code.split(" && ")).collect()
        };
        let commands = commands.into_iter().filter(|command| command.starts_with("cargo "));
        lines.extend(commands.map(ToOwned::to_owned));
    }
    lines
}

/// Checks that the packages, targets and features of a command of cargo are in the workspace.
fn check_cargo(line: &str, metadata: &Value) -> Result<(), String> {
    let line = line.replace('=', " ");
    let arguments: Vec<&str> =
        line.split_whitespace().take_while(|argument| *argument != "--").collect();
    match arguments.get(1).copied() {
        // These commands run in the reader's package, or belong to another program.
        Some("add" | "new" | "fuzz") => return Ok(()),
        Some("xtask") => {
            let commands = crate::USAGE.lines().filter_map(|line| line.split_whitespace().nth(2));
            let mut commands = commands.chain(crate::USAGE.split_whitespace().nth(3));
            let exists =
                arguments.get(2).is_some_and(|argument| commands.any(|it| it == *argument));
            return if exists { Ok(()) } else { Err("xtask has no such command".to_owned()) };
        }
        _ => {}
    }
    let pairs =
        || arguments.iter().zip(arguments.iter().skip(1)).map(|(flag, value)| (*flag, *value));
    let package_name = pairs().find_map(|(flag, value)| match flag {
        "-p" | "--package" | "--path" => value.rsplit('/').next(),
        _ => None,
    });
    let workspace: Vec<&Value> = packages(metadata)
        .filter(|package| {
            is_workspace_package(package) && package_name.is_none_or(|name| package["name"] == name)
        })
        .collect();
    if workspace.is_empty() {
        return Err(format!("there is no package `{}`", package_name.unwrap_or_default()));
    }
    for (flag, value) in pairs() {
        let kind = match flag {
            "--features" => "features",
            "--example" | "--bin" | "--test" | "--bench" => flag.trim_start_matches('-'),
            _ => continue,
        };
        let existing: BTreeSet<&str> = workspace.iter().flat_map(|it| names(it, kind)).collect();
        if let Some(unknown) = value.split(',').find(|name| !existing.contains(*name)) {
            return Err(format!("there is no {kind} `{unknown}`"));
        }
    }
    Ok(())
}

/// Returns the names of a package's features, or of its targets of one kind.
fn names<'p>(package: &'p Value, kind: &str) -> Vec<&'p str> {
    if kind == "features" {
        let features = package["features"].as_object().into_iter().flatten();
        return features.map(|(name, _)| name.as_str()).collect();
    }
    let targets = package["targets"].as_array().into_iter().flatten();
    let is_of_kind = |target: &&Value| {
        target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|it| it == kind))
    };
    targets.filter(is_of_kind).filter_map(|target| target["name"].as_str()).collect()
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
    fn pages_that_the_summary_omits_or_repeats_are_reported() {
        let summary = "- [A](a.md)\n- [B](b/c.md)\n- [B](b/c.md)\n";
        let pages = ["SUMMARY.md", "a.md", "b/c.md", "d.md"].map(ToOwned::to_owned);
        assert_eq!(
            unlisted(summary, &pages),
            ["docs/SUMMARY.md: lists `b/c.md` 2 times", "docs/SUMMARY.md: lists `d.md` 0 times"]
        );
    }

    #[test]
    fn missing_functions_are_reported() {
        let root = root().canonicalize().unwrap();
        let page = "| `Catalog::listing` | `callgate/src/catalog.rs` | a |\n\
                    | `gone` | `callgate/src/catalog.rs` | b |\n| `a` | `b` |\n";
        assert_eq!(
            missing_functions(&root, page),
            ["ARCHITECTURE.md: there is no `gone` in `callgate/src/catalog.rs`"]
        );
    }

    #[test]
    fn missing_files_are_reported() {
        let sources = ["/crates/callgate/src/mcp.rs".to_owned()];
        let page = "`mcp.rs` and `callgate/src/mcp.rs` and `cp.rs`";
        assert_eq!(missing_files(&sources, page), ["there is no file `cp.rs`"]);
    }

    #[test]
    fn links_out_of_the_book_are_reported() {
        let root = root().canonicalize().unwrap();
        let (book, page) = (root.join("docs"), root.join("docs/start/demo.md"));
        assert_eq!(check_scope(&book, &page, "clients.md#windows"), Ok(()));
        assert!(check_scope(&book, &page, "../../README.md").is_err());
        assert_eq!(check_scope(&book, &root.join("README.md"), "Cargo.toml"), Ok(()));
    }

    #[test]
    fn commands_name_packages_targets_and_features_that_exist() {
        let metadata = dependencies::metadata().unwrap();
        assert_eq!(command_lines(PAGE), ["cargo run -p callgate-cli -- serve"]);
        for (line, is_valid) in [
            ("cargo run -p callgate-cli -- -p nothing", true),
            ("cargo run -p nothing", false),
            ("cargo xtask test", true),
            ("cargo xtask nothing", false),
            ("cargo xtask te", false),
            ("cargo install --path crates/callgate-cli --features full", true),
            ("cargo build --features=nothing", false),
            ("cargo build -p callgate --features full", false),
            ("cargo test --test cli", true),
            ("cargo test --test nothing", false),
        ] {
            assert_eq!(check_cargo(line, &metadata).is_ok(), is_valid, "{line}");
        }
    }
}
