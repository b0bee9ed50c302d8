//! Tests of the definition of the command line, and of the commands in the documents.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::FromArgMatches as _;

use super::{Cli, GROUPS};
use crate::config::tests::check_reference;

fn parse(arguments: &[String]) -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&Cli::definition().try_get_matches_from(arguments)?)
}

/// Visits each command that the help shows.
fn visit(command: &mut clap::Command, visitor: &mut impl FnMut(&mut clap::Command)) {
    visitor(command);
    for subcommand in command.get_subcommands_mut() {
        if !subcommand.is_hide_set() && subcommand.get_name() != "help" {
            visit(subcommand, visitor);
        }
    }
}

fn definition() -> clap::Command {
    let mut command = Cli::definition().term_width(100);
    command.build();
    command
}

#[test]
fn the_definition_of_the_command_line_is_valid() {
    Cli::definition().debug_assert();
}

#[test]
fn every_command_is_in_one_group_of_the_help() {
    let definition = Cli::definition();
    let commands = definition.get_subcommands().filter(|command| !command.is_hide_set());
    let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
    assert_eq!(commands.map(clap::Command::get_name).collect::<Vec<_>>(), grouped);
}

#[test]
fn every_command_has_an_example_that_parses() {
    visit(&mut definition(), &mut |subcommand| {
        if subcommand.has_subcommands() {
            return;
        }
        let name = subcommand.get_bin_name().unwrap_or_default().to_owned();
        let help = subcommand.render_long_help().to_string();
        let (_, example) =
            help.split_once("Example:\n").unwrap_or_else(|| panic!("{name}: {help}"));
        let words = command_words(example.trim()).unwrap_or_else(|| panic!("{name}: {example}"));
        assert!(words.join(" ").starts_with(&name), "{name}: {words:?}");
        if let Err(error) = parse(&words) {
            panic!("{words:?}: {error}");
        }
    });
}

#[test]
fn former_spellings_are_accepted_and_hidden_from_the_help() {
    let mut help = String::new();
    visit(&mut definition(), &mut |command| help += &command.render_long_help().to_string());
    for (former, current) in [
        ("method edit a --hidden", "method set a --hidden"),
        ("method show a --caller ada", "method show a --user ada"),
        ("token create ada", "token add ada"),
        ("token revoke 3", "token remove 3"),
        ("credential set ada shop --file key", "credential set ada shop --secret-file key"),
        ("keys list", "key list"),
        ("keys rotate --now", "key rotate --now"),
        ("settings set mcp_server_name shop", "setting set mcp_server_name shop"),
        ("section add a --mask 2", "section add a --mask read"),
    ] {
        let words = |line: &str| format!("callgate {line}").split(' ').map(str::to_owned).collect();
        let parsed = |line: &str| format!("{:?}", parse(&words(line) as &Vec<String>).unwrap());
        assert_eq!(parsed(former), parsed(current));
        assert!(!help.contains(&format!("callgate {former}")), "{former}");
    }
    for hidden in ["--caller", "--file <", "callgate settings", "  get "] {
        assert!(!help.contains(hidden), "{hidden}");
    }
}

#[test]
fn the_reference_of_the_command_line_is_up_to_date() {
    let mut text = String::from("# The command line\n\nGenerated from the program; do not edit.\n");
    visit(&mut definition(), &mut |command| describe(command, &mut text));
    check_reference("command-line.md", &text);
}

/// Describes a command. Global options are described once, at the top.
fn describe(command: &mut clap::Command, text: &mut String) {
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    let mut help = help.join("\n");
    let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
    if name != "callgate"
        && let Some(start) = help.find("\nGlobal options:")
    {
        let end = help.find("\nExample:").unwrap_or(help.len());
        let is_shown = |arg: &&clap::Arg| arg.is_global_set() && !arg.is_hide_set();
        let names = command.get_arguments().filter(is_shown).filter_map(clap::Arg::get_long);
        let names: Vec<String> = names.map(|name| format!("--{name}")).collect();
        help.replace_range(start..end, &format!("\nGlobal options: {}\n", names.join(", ")));
    }
    writeln!(text, "\n## `{name}`\n\n```text\n{}\n```", help.trim_end()).unwrap();
}

/// Returns the Markdown files in a directory and its subdirectories.
fn pages(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let pages = entries.flat_map(|path| match path.extension() {
        _ if path.is_dir() => pages(&path),
        Some(extension) if extension == "md" => vec![path],
        _ => Vec::new(),
    });
    pages.collect()
}

/// Returns the lines in code blocks. A line that ends in a backslash is joined to the next line.
fn code_lines(text: &str) -> Vec<String> {
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

/// Returns the words of a `callgate` command in a shell line, without shell syntax.
fn command_words(line: &str) -> Option<Vec<String>> {
    let line = line.trim_start_matches("$ ");
    let line =
        line.split_once("$(").map_or(line, |(_, substitution)| substitution.trim_end_matches(')'));
    let mut words: Vec<String> = Vec::new();
    let (mut quote, mut is_new) = (None, true);
    for c in line.chars() {
        match (quote, c) {
            (Some(delimiter), c) if delimiter == c => quote = None,
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
fn command_lines_are_split_as_a_shell_does() {
    for (line, words) in [
        (
            "$ callgate method add a --param 'int $id'",
            vec!["method", "add", "a", "--param", "int $id"],
        ),
        ("$ TOKEN=$(target/debug/callgate token add ada)", vec!["token", "add", "ada"]),
        ("A=b callgate migrate > registry.sql   # once", vec!["migrate"]),
        (
            "callgate upstream set shop url=http://localhost/",
            vec!["upstream", "set", "shop", "url=http://localhost/"],
        ),
    ] {
        assert_eq!(command_words(line).unwrap()[1..], words);
    }
    assert_eq!(command_words("curl http://127.0.0.1:8080/mcp"), None);
}

#[test]
fn every_command_line_in_the_documents_parses() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut count = 0;
    let documents = pages(&root.join("docs")).into_iter().chain(pages(&root.join("examples")));
    for page in documents.chain([root.join("README.md")]) {
        // This page is generated from the definitions, and contains usage lines.
        if page.ends_with("reference/command-line.md") {
            continue;
        }
        let text = std::fs::read_to_string(&page).unwrap();
        for words in code_lines(&text).iter().filter_map(|line| command_words(line)) {
            count += 1;
            if let Err(error) = parse(&words) {
                panic!("{}: {words:?}: {error}", page.display());
            }
        }
    }
    assert!(count > 40, "{count}");
}
