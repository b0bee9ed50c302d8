//! Doc comments as descriptions: for agents, without the parts that are for Rust developers.

use syn::{Attribute, Expr, ExprLit, Lit, Meta};

use crate::errors::Errors;

/// Sections of a doc comment that say nothing to a caller.
const LEFT_OUT: [&str; 5] = ["errors", "panics", "examples", "example", "safety"];

/// The doc comment among attributes, as a description.
pub(crate) fn description(attributes: &[Attribute], errors: &mut Errors) -> String {
    let mut lines = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        let Meta::NameValue(doc) = &attribute.meta else { continue };
        match &doc.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
                // A block comment is one text of many lines.
                lines.extend(text.value().split('\n').map(ToOwned::to_owned));
            }
            other => errors.push(other, "a description must be text that stands here"),
        }
    }
    for line in &mut lines {
        if let Some(rest) = line.strip_prefix(' ') {
            *line = rest.to_owned();
        }
    }
    without_sections(&lines)
}

fn without_sections(lines: &[String]) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut left_out: Option<usize> = None;
    let mut in_code = false;
    for line in lines {
        let line = line.trim_end();
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if let Some((level, title)) = heading(line).filter(|_| !in_code) {
            let goes_on = left_out.is_some_and(|outer| level > outer);
            if !goes_on {
                left_out = LEFT_OUT.contains(&title.as_str()).then_some(level);
            }
        }
        if left_out.is_none() {
            kept.push(line);
        }
    }
    kept.join("\n").trim().to_owned()
}

/// The level of a heading, and its title in lower case.
fn heading(line: &str) -> Option<(usize, String)> {
    let title = line.trim_start_matches('#');
    let level = line.len() - title.len();
    (1..=6).contains(&level).then_some(())?;
    title.starts_with(' ').then(|| (level, title.trim().to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        let lines: Vec<String> = text.lines().map(ToOwned::to_owned).collect();
        without_sections(&lines)
    }

    #[test]
    fn d39_what_is_for_developers_is_left_out() {
        let text = "Looks up.\n\nMore.\n\n# Errors\n\nMany.\n## Of one kind\n\n# Notes\n\nKept.\n\
                    ```\n# Panics is no heading here\n```\n# Panics\nNever.";
        let expected =
            "Looks up.\n\nMore.\n\n# Notes\n\nKept.\n```\n# Panics is no heading here\n```";
        assert_eq!(of(text), expected);
        assert_eq!(of("# Errors\nall\n# Examples\nall"), "");
        assert_eq!(
            of("#tag is no heading\n####### nor this"),
            "#tag is no heading\n####### nor this"
        );
    }
}
