//! Whether docs/internals/behaviours.md tells the truth: each behaviour in scope has a row, and each test that
//! a row names is in the code.

use std::collections::HashSet;
use std::path::Path;

use anyhow::Context as _;

/// What is wrong, a line each.
pub(crate) fn problems(root: &Path) -> anyhow::Result<Vec<String>> {
    let page = root.join("docs/internals/behaviours.md");
    let page =
        std::fs::read_to_string(&page).context("cannot read docs/internals/behaviours.md")?;
    let mut tests = HashSet::new();
    collect_functions(&root.join("crates"), &mut tests)?;
    let mut problems = Vec::new();
    for row in page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let (Some(first), Some(last)) = (cells.first(), cells.last()) else { continue };
        if last.trim() == "tests" {
            continue;
        }
        let named: Vec<&str> = last.split('`').skip(1).step_by(2).collect();
        if named.is_empty() {
            problems.push(format!("{}: names no test", first.trim()));
        }
        for test in named.into_iter().filter(|test| !tests.contains(*test)) {
            problems.push(format!("{}: there is no test `{test}`", first.trim()));
        }
    }
    for number in (1..=66).chain([68, 69]) {
        if !page.lines().any(|line| line.starts_with(&format!("| B{number} |"))) {
            problems.push(format!("B{number} has no row"));
        }
    }
    Ok(problems)
}

/// The names of all functions in Rust files below a directory.
fn collect_functions(directory: &Path, names: &mut HashSet<String>) -> anyhow::Result<()> {
    let entries = std::fs::read_dir(directory)
        .with_context(|| format!("cannot read {}", directory.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            collect_functions(&path, names)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let functions = text.lines().filter_map(|line| line.trim().split_once("fn "));
            names.extend(
                functions
                    .filter_map(|(_, rest)| rest.split(['(', '<']).next().map(ToOwned::to_owned)),
            );
        }
    }
    Ok(())
}
