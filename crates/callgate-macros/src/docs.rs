//! Converts doc comments to descriptions for agents, without the parts for Rust developers.

use syn::{Attribute, Expr, ExprLit, Lit, Meta};

use crate::errors::Errors;

/// Titles of the sections of a doc comment that are omitted.
const OMITTED_SECTIONS: [&str; 5] = ["errors", "panics", "examples", "example", "safety"];

/// Returns the doc comment of an item as a description.
pub(crate) fn description(attributes: &[Attribute], errors: &mut Errors) -> String {
    let mut lines = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        let Meta::NameValue(doc) = &attribute.meta else { continue };
        match &doc.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
                lines.extend(lines_of(&text.value()));
            }
            other => errors.push(other, "expected a string literal as the description"),
        }
    }
    without_sections(&trimmed(lines))
}

/// Removes the space that follows `///` from each line.
fn trimmed(lines: Vec<String>) -> Vec<String> {
    let without_space =
        |line: String| line.strip_prefix(' ').map(ToOwned::to_owned).unwrap_or(line);
    lines.into_iter().map(without_space).collect()
}

/// Splits a doc attribute into lines. Lines of a block comment may begin with a star.
fn lines_of(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.split('\n').collect();
    let is_starred = |line: &&str| line.trim().is_empty() || line.trim_start().starts_with('*');
    let (first, rest) = lines.split_first().unwrap_or((&"", &[]));
    if rest.is_empty() || !rest.iter().all(is_starred) {
        return lines.into_iter().map(ToOwned::to_owned).collect();
    }
    let without_star = |line: &&str| line.trim_start().trim_start_matches('*').to_owned();
    std::iter::once((*first).to_owned()).chain(rest.iter().map(without_star)).collect()
}

/// Removes the omitted sections and joins the lines of each paragraph.
fn without_sections(lines: &[String]) -> String {
    let mut included: Vec<String> = Vec::new();
    let mut omitted: Option<usize> = None;
    let mut in_code = false;
    for line in lines {
        let line = line.trim_end();
        let was_in_code = in_code;
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if let Some((level, title)) = heading(line).filter(|_| !in_code) {
            let is_nested = omitted.is_some_and(|outer| level > outer);
            if !is_nested {
                omitted = OMITTED_SECTIONS.contains(&title.as_str()).then_some(level);
            }
        }
        if omitted.is_some() {
            continue;
        }
        match included.last_mut() {
            Some(last) if !was_in_code && can_continue(last) && !starts_block(line) => {
                last.push(' ');
                last.push_str(line.trim_start());
            }
            _ => included.push(line.to_owned()),
        }
    }
    included.join("\n").trim().to_owned()
}

/// Returns `true` if the paragraph of this line can continue on the next line.
fn can_continue(line: &str) -> bool {
    let line = line.trim_start();
    !(line.is_empty()
        || line.starts_with("```")
        || line.starts_with('|')
        || heading(line).is_some())
}

/// Returns `true` if this line starts a new block.
fn starts_block(line: &str) -> bool {
    let line = line.trim_start();
    let after_digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered = after_digits.len() < line.len()
        && (after_digits.starts_with(". ") || after_digits.starts_with(") "));
    line.is_empty()
        || is_numbered
        || heading(line).is_some()
        || ["- ", "* ", "+ ", "> ", "|", "```"].iter().any(|mark| line.starts_with(mark))
}

/// Returns the level of a heading and its title in lower case.
fn heading(line: &str) -> Option<(usize, String)> {
    let title = line.trim_start_matches('#');
    let level = line.len() - title.len();
    (1..=6).contains(&level).then_some(())?;
    title.starts_with(' ').then(|| (level, title.trim().to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description_of(text: &str) -> String {
        let lines: Vec<String> = text.lines().map(ToOwned::to_owned).collect();
        without_sections(&lines)
    }

    #[test]
    fn sections_for_developers_are_omitted() {
        let text = "Looks up.\n\nMore.\n\n# Errors\n\nMany.\n## Of one kind\n\n# Notes\n\nKept.\n\
                    ```\n# Panics is no heading here\n```\n# Panics\nNever.";
        let expected =
            "Looks up.\n\nMore.\n\n# Notes\n\nKept.\n```\n# Panics is no heading here\n```";
        assert_eq!(description_of(text), expected);
        assert_eq!(description_of("# Errors\nall\n# Examples\nall"), "");
        assert_eq!(description_of("#tag is no heading"), "#tag is no heading");
    }

    #[test]
    fn stars_of_a_block_comment_are_removed() {
        let lines = lines_of(" Looks\n * up things.\n *\n * - one\n ");
        assert_eq!(without_sections(&trimmed(lines)), "Looks up things.\n\n- one");
        let lines = lines_of("A list:\n* one\nand more");
        assert_eq!(without_sections(&trimmed(lines)), "A list:\n* one and more");
    }

    #[test]
    fn lines_of_a_paragraph_are_joined() {
        let text = "Lists articles,\noldest first.\n\n# Order\nBy\nage.\n- one\n  of them\n- two\n\
                    1. first\n2) second\n\n| a |\n| 1 |\n```\nlet a = 1;\nlet b = 2;\n```\nEnd.";
        let expected = "Lists articles, oldest first.\n\n# Order\nBy age.\n- one of them\n- two\n\
                        1. first\n2) second\n\n| a |\n| 1 |\n```\nlet a = 1;\nlet b = 2;\n```\nEnd.";
        assert_eq!(description_of(text), expected);
    }
}
