//! Checks the dependencies: licences, sources, Rust versions, duplicate and unused crates.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

use crate::files::{files_below, read};
use crate::test::{cargo, output};

/// Allowed licences.
const LICENCES: [&str; 12] = [
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Crates that the program may have in two versions, and the reason for the older version.
const DUPLICATES: [(&str, &str); 8] = [
    ("block-buffer", "sha2 0.10"),
    ("cpufeatures", "sha2 0.10"),
    ("crypto-common", "sha2 0.10"),
    ("digest", "sha2 0.10"),
    ("getrandom", "0.2 by ring, 0.3 by jsonschema's ahash"),
    ("hashbrown", "0.16 by sqlx"),
    ("sha2", "0.10 by sqlx-core, whose drivers have 0.11"),
    ("syn", "2 by jsonschema's strum and by tracing"),
];

/// Dependencies that no source file mentions, with the reason.
const UNMENTIONED: [(&str, &str, &str); 1] =
    [("callgate-cli", "idna_adapter", "chooses which tables the `idna` crate has")];

/// Returns the output of `cargo metadata`.
pub(crate) fn metadata() -> anyhow::Result<Value> {
    let arguments = ["metadata", "--format-version", "1", "--all-features", "--locked"];
    let text = output(cargo().args(arguments).current_dir(crate::root()))?;
    serde_json::from_str(&text).context("failed to parse the output of `cargo metadata`")
}

/// Returns the packages of the workspace and all of their dependencies.
pub(crate) fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().into_iter().flatten()
}

/// Returns `true` for a package of the workspace.
pub(crate) fn is_workspace_package(package: &Value) -> bool {
    package["source"].is_null()
}

/// Returns the problems, one per line.
pub(crate) fn problems() -> anyhow::Result<Vec<String>> {
    let metadata = metadata()?;
    let (workspace, dependencies): (Vec<_>, Vec<_>) =
        packages(&metadata).partition(|it| is_workspace_package(it));
    let mut problems: Vec<String> =
        dependencies.iter().flat_map(|it| problems_of(it, &workspace)).collect();
    for package in workspace {
        problems.extend(unused(package)?);
    }
    problems.extend(duplicates()?);
    Ok(problems)
}

fn problems_of(package: &Value, workspace: &[&Value]) -> Vec<String> {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    let name = format!("{} {}", text("name"), text("version"));
    let mut problems = Vec::new();
    if !text("source").starts_with("registry+") {
        problems.push(format!("{name} is not from the registry: {}", text("source")));
    }
    // Some old crates write a slash instead of OR.
    if !is_allowed(&text("license").replace('/', " OR ")) {
        problems.push(format!("{name} has a licence that is not allowed: {}", text("license")));
    }
    let supported =
        workspace.iter().filter_map(|package| package["rust_version"].as_str()).map(version);
    if supported.min().is_some_and(|supported| version(text("rust_version")) > supported) {
        let required = text("rust_version");
        problems.push(format!("{name} needs Rust {required}, newer than `rust-version`"));
    }
    problems
}

/// Parses a version.
fn version(text: &str) -> Vec<u32> {
    let mut parts: Vec<u32> = text.split('.').filter_map(|part| part.parse().ok()).collect();
    parts.resize(3, 0);
    parts
}

/// Returns `true` if the allowed licences satisfy an SPDX expression. Exceptions after `WITH` only add permissions.
fn is_allowed(expression: &str) -> bool {
    let separated = expression.replace('(', " ( ").replace(')', " ) ");
    let tokens: Vec<&str> = separated.split_whitespace().collect();
    let mut rest = tokens.as_slice();
    let allowed = any_of(&mut rest);
    allowed && rest.is_empty()
}

fn any_of(tokens: &mut &[&str]) -> bool {
    let mut allowed = all_of(tokens);
    while let Some((&"OR", rest)) = tokens.split_first() {
        *tokens = rest;
        allowed |= all_of(tokens);
    }
    allowed
}

fn all_of(tokens: &mut &[&str]) -> bool {
    let mut allowed = one_of(tokens);
    while let Some((&"AND", rest)) = tokens.split_first() {
        *tokens = rest;
        allowed &= one_of(tokens);
    }
    allowed
}

fn one_of(tokens: &mut &[&str]) -> bool {
    let Some((&first, rest)) = tokens.split_first() else { return false };
    *tokens = rest;
    if first == "(" {
        let allowed = any_of(tokens);
        // The closing parenthesis.
        *tokens = tokens.split_first().map_or(&[], |(_, rest)| rest);
        return allowed;
    }
    if let [exception, _, rest @ ..] = *tokens
        && *exception == "WITH"
    {
        *tokens = rest;
    }
    LICENCES.contains(&first)
}

/// Returns the dependencies of a package that its source does not mention.
fn unused(package: &Value) -> anyhow::Result<Vec<String>> {
    let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
    let directory = manifest.parent().context("manifest has no directory")?;
    let mut source = String::new();
    for path in files_below(directory, "rs")? {
        push_code(&path, &mut source)?;
    }
    // Examples may be in another directory.
    for target in package["targets"].as_array().into_iter().flatten() {
        let file = target["src_path"].as_str().unwrap_or_default();
        push_code(Path::new(file), &mut source)?;
    }
    let name = package["name"].as_str().unwrap_or_default();
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    let names = dependencies.filter_map(|it| it["rename"].as_str().or(it["name"].as_str()));
    let names: BTreeSet<&str> = names.collect();
    let is_unused = |dependency: &&str| {
        let is_listed = UNMENTIONED.iter().any(|(of, it, _)| (of, it) == (&name, dependency));
        let identifier = dependency.replace('-', "_");
        let mut found = source.match_indices(&identifier);
        let is_path = |(start, _): (usize, &str)| {
            let before = source.get(..start).unwrap_or_default();
            let after = source.get(start + identifier.len()..).unwrap_or_default();
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            let is_imported = before.ends_with("use ") || before.ends_with("extern crate ");
            !before.ends_with(is_part) && (after.starts_with("::") || is_imported)
        };
        !is_listed && !found.any(is_path)
    };
    let unused = names.into_iter().filter(is_unused);
    Ok(unused.map(|dependency| format!("{name} does not use `{dependency}`")).collect())
}

/// Appends the lines of a file that are not comments.
fn push_code(path: &Path, source: &mut String) -> anyhow::Result<()> {
    for line in read(path)?.lines().filter(|line| !line.trim_start().starts_with("//")) {
        source.push_str(line);
        source.push('\n');
    }
    Ok(())
}

/// Returns the crates that the program has in two versions and that [`DUPLICATES`] does not list. Also returns the
/// entries of [`DUPLICATES`] that are not needed.
fn duplicates() -> anyhow::Result<Vec<String>> {
    let arguments = ["tree", "--duplicates", "--package", "callgate-cli", "--features", "full"];
    let tree = output(
        cargo()
            .args(arguments)
            .args(["--edges", "normal,build", "--depth", "0", "--prefix", "none"])
            .current_dir(crate::root()),
    )?;
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in tree.lines() {
        let mut parts = line.split(' ');
        if let (Some(name), Some(version)) = (parts.next(), parts.next()) {
            versions.entry(name).or_default().insert(version);
        }
    }
    // A crate that build scripts use with other features is listed twice with the same version.
    versions.retain(|_, versions| versions.len() > 1);
    let is_listed = |name: &str| DUPLICATES.iter().any(|(listed, _)| *listed == name);
    let unlisted = versions.iter().filter(|(name, _)| !is_listed(name)).map(|(name, versions)| {
        let versions: Vec<&str> = versions.iter().copied().collect();
        format!("the program has `{name}` more than once: {}", versions.join(", "))
    });
    let unneeded = DUPLICATES.iter().filter(|(name, _)| !versions.contains_key(name));
    let unneeded = unneeded.map(|(name, _)| {
        format!(
            "`{name}` has one version: remove it from `DUPLICATES` in xtask/src/dependencies.rs"
        )
    });
    Ok(unlisted.chain(unneeded).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_are_read_as_expressions() {
        for (expression, allowed) in [
            ("MIT", true),
            ("MIT OR GPL-3.0", true),
            ("GPL-3.0 AND MIT", false),
            ("(MIT OR GPL-3.0) AND ISC", true),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("(MIT AND GPL-3.0) OR (GPL-2.0)", false),
            ("", false),
        ] {
            assert_eq!(is_allowed(expression), allowed, "{expression}");
        }
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(version("1.9") < version("1.85.0"));
        assert_eq!(version("1.85"), version("1.85.0"));
    }
}
