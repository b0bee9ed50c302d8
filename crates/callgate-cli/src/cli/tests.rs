//! The command line as it is defined, and as the documents use it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{CommandFactory as _, Parser as _};

use super::Cli;
use crate::config::tests::check_reference;

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn the_reference_of_the_command_line_is_up_to_date() {
    let mut text = String::from("# The command line\n\nMade from the program; do not edit.\n");
    let mut command = Cli::command().term_width(100);
    command.build();
    describe(&mut command, &mut text);
    check_reference("command-line.md", &text);
}

fn describe(command: &mut clap::Command, text: &mut String) {
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
    let help = help.join("\n");
    writeln!(text, "\n## `{name}`\n\n```text\n{}\n```", help.trim_end()).unwrap();
    for inner in command.get_subcommands_mut().filter(|inner| inner.get_name() != "help") {
        describe(inner, text);
    }
}

/// The Markdown files of a directory and of those below it.
fn pages(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let pages = entries.flat_map(|path| match path.extension() {
        _ if path.is_dir() => pages(&path),
        Some(extension) if extension == "md" => vec![path],
        _ => Vec::new(),
    });
    pages.collect()
}

/// The lines in blocks of code, with lines that end in a backslash joined to the next.
fn code(text: &str) -> Vec<String> {
    let mut is_code = false;
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if is_code {
            match lines.last_mut() {
                Some(last) if last.ends_with('\\') => {
                    last.pop();
                    last.push_str(line.trim_start());
                }
                _ => lines.push(line.to_owned()),
            }
        }
    }
    lines
}

/// The words of the program's command in a line of a shell, without what the shell does with it.
fn command(line: &str) -> Option<Vec<String>> {
    let line = line.trim_start_matches("$ ");
    let line = line.split_once("$(").map_or(line, |(_, inner)| inner.trim_end_matches(')'));
    let mut words: Vec<String> = Vec::new();
    let (mut quote, mut is_new) = (None, true);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, ' ') => is_new = true,
            (None, '|' | '<' | '>' | '#' | ';') if is_new => break,
            (_, c) => {
                if std::mem::take(&mut is_new) {
                    words.push(String::new());
                }
                words.last_mut()?.push(c);
            }
        }
    }
    let is_variable = |word: &&String| word.contains('=') && !word.starts_with('-');
    let variables = words.iter().take_while(is_variable).count();
    let words = words.split_off(variables);
    let program = words.first()?;
    (program == "callgate" || program.ends_with("/callgate")).then_some(words)
}

#[test]
fn a_line_of_a_shell_is_read_as_the_shell_does() {
    for (line, words) in [
        (
            "$ callgate method add a --param 'int $id'",
            vec!["method", "add", "a", "--param", "int $id"],
        ),
        ("$ TOKEN=$(target/debug/callgate token create ada)", vec!["token", "create", "ada"]),
        ("A=b callgate migrate > registry.sql   # once", vec!["migrate"]),
        (
            "callgate upstream set shop url=http://localhost/",
            vec!["upstream", "set", "shop", "url=http://localhost/"],
        ),
    ] {
        assert_eq!(command(line).unwrap()[1..], words);
    }
    assert_eq!(command("curl http://127.0.0.1:8080/mcp"), None);
}

#[test]
fn every_command_line_of_the_documents_is_one_of_the_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut count = 0;
    let all = pages(&root.join("docs")).into_iter().chain(pages(&root.join("examples")));
    for page in all.chain([root.join("README.md")]) {
        // It is made from the definitions, and has usage lines.
        if page.ends_with("reference/command-line.md") {
            continue;
        }
        let text = std::fs::read_to_string(&page).unwrap();
        for words in code(&text).iter().filter_map(|line| command(line)) {
            count += 1;
            if let Err(error) = Cli::try_parse_from(&words) {
                panic!("{}: {words:?}: {error}", page.display());
            }
        }
    }
    assert!(count > 40, "{count}");
}
