//! Checks that comments, documents and the names of tests do not refer to behaviours and decisions
//! by number, because the repository does not define such numbers.

use std::path::Path;

use crate::files::{SOURCE, files_below, files_in, read};

/// Returns the problems, one per line.
pub(crate) fn problems(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut files = files_in(root, "md")?;
    for directory in SOURCE.into_iter().chain(["docs"]) {
        for extension in ["md", "rs", "txt"] {
            files.extend(files_below(&root.join(directory), extension)?);
        }
    }
    let mut problems = Vec::new();
    for file in files {
        let text = read(&file)?;
        let path = file.strip_prefix(root).unwrap_or(&file).display();
        let is_rust = file.extension().is_some_and(|extension| extension == "rs");
        let has_reference = |line: &str| {
            let prose = if is_rust { line.split_once("//").map_or("", |(_, it)| it) } else { line };
            has_numbered_name(line) || has_number(prose)
        };
        let lines = text.lines().enumerate().filter(|(_, line)| has_reference(line));
        problems.extend(lines.map(|(at, line)| format!("{path}:{}: {}", at + 1, line.trim())));
    }
    Ok(problems)
}

/// Returns `true` if a line has an identifier such as `bN_name` or `users_N_name`, with a number `N`.
fn has_numbered_name(line: &str) -> bool {
    words(line).any(|word| {
        let (prefix, rest) = word.split_once('_').unwrap_or((word, ""));
        let is_user = prefix == "users" && rest.starts_with(|c: char| c.is_ascii_digit());
        is_user || !rest.is_empty() && is_number(prefix, ['b', 'd'])
    })
}

/// Returns `true` if prose has a word such as `DN`, with a number `N`.
fn has_number(prose: &str) -> bool {
    words(prose).any(|word| is_number(word, ['B', 'D']))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

/// Returns `true` for one of these letters followed by one or two digits.
fn is_number(word: &str, letters: [char; 2]) -> bool {
    let digits = word.strip_prefix(letters).unwrap_or_default();
    (1..=2).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_and_prose_are_found() {
        let number = 12;
        assert!(has_numbered_name(&format!("fn b{number}_a_claim() {{")));
        assert!(has_numbered_name(&format!("    users_{number}_a_claim")));
        assert!(!has_numbered_name(&format!("let b{number} = users_of(group);")));
        assert!(has_number(&format!(" D{number}: a rule")));
        assert!(!has_number("0xD12 of the IPv4 B123"));
    }
}
