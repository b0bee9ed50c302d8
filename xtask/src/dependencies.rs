//! What the workspace depends on: licences, sources, versions of Rust, crates that are there twice or unused.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

use crate::test::{cargo, output};

/// The licences that a dependency may have.
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

/// The crates that the program may have in two versions, and what keeps the older one.
const TWICE: [(&str, &str); 8] = [
    ("block-buffer", "sha2 0.10"),
    ("cpufeatures", "sha2 0.10"),
    ("crypto-common", "sha2 0.10"),
    ("digest", "sha2 0.10"),
    ("getrandom", "0.2 by ring, 0.3 by jsonschema's ahash"),
    ("hashbrown", "0.16 by sqlx"),
    ("sha2", "0.10 by sqlx-core, whose drivers have 0.11"),
    ("syn", "2 by jsonschema's strum and by tracing"),
];

/// The dependencies that no source file names, and why they are there.
const UNNAMED: [(&str, &str, &str); 1] =
    [("callgate-cli", "idna_adapter", "chooses which tables the `idna` crate has")];

/// What cargo knows of the workspace and its dependencies.
pub(crate) fn metadata() -> anyhow::Result<Value> {
    let arguments = ["metadata", "--format-version", "1", "--all-features", "--locked"];
    let text = output(cargo().args(arguments).current_dir(crate::root()))?;
    serde_json::from_str(&text).context("cannot read what `cargo metadata` prints")
}

/// The packages of the workspace and all that they depend on.
pub(crate) fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().into_iter().flatten()
}

/// Whether a package is one of the workspace.
pub(crate) fn is_own(package: &Value) -> bool {
    package["source"].is_null()
}

/// Returns what is wrong, a line each.
pub(crate) fn problems() -> anyhow::Result<Vec<String>> {
    let metadata = metadata()?;
    let (own, others): (Vec<_>, Vec<_>) = packages(&metadata).partition(|it| is_own(it));
    let mut problems: Vec<String> = others.iter().flat_map(|it| problems_of(it, &own)).collect();
    for package in own {
        problems.extend(unused(package)?);
    }
    problems.extend(twice()?);
    Ok(problems)
}

fn problems_of(package: &Value, own: &[&Value]) -> Vec<String> {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    let name = format!("{} {}", text("name"), text("version"));
    let mut problems = Vec::new();
    if !text("source").starts_with("registry+") {
        problems.push(format!("{name} does not come from the registry: {}", text("source")));
    }
    // Some old crates write a slash for OR.
    if !is_allowed(&text("license").replace('/', " OR ")) {
        problems.push(format!("{name} has a licence that is not allowed: {}", text("license")));
    }
    let ours = own.iter().filter_map(|package| package["rust_version"].as_str()).map(version);
    if ours.min().is_some_and(|ours| version(text("rust_version")) > ours) {
        let wanted = text("rust_version");
        problems.push(format!("{name} needs Rust {wanted}, newer than `rust-version`"));
    }
    problems
}

/// The parts of a version as numbers.
fn version(text: &str) -> Vec<u32> {
    let mut parts: Vec<u32> = text.split('.').filter_map(|part| part.parse().ok()).collect();
    parts.resize(3, 0);
    parts
}

/// Whether an SPDX expression can be met with the allowed licences. An exception, as `WITH` names one, only allows
/// more.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let allowed = any_of(&mut rest);
    allowed && rest.is_empty()
}

fn any_of(words: &mut &[&str]) -> bool {
    let mut allowed = all_of(words);
    while let Some((&"OR", rest)) = words.split_first() {
        *words = rest;
        allowed |= all_of(words);
    }
    allowed
}

fn all_of(words: &mut &[&str]) -> bool {
    let mut allowed = one_of(words);
    while let Some((&"AND", rest)) = words.split_first() {
        *words = rest;
        allowed &= one_of(words);
    }
    allowed
}

fn one_of(words: &mut &[&str]) -> bool {
    let Some((&first, rest)) = words.split_first() else { return false };
    *words = rest;
    if first == "(" {
        let allowed = any_of(words);
        // The closing one.
        *words = words.split_first().map_or(&[], |(_, rest)| rest);
        return allowed;
    }
    if let [exception, _, rest @ ..] = *words
        && *exception == "WITH"
    {
        *words = rest;
    }
    LICENCES.contains(&first)
}

/// The dependencies of a package that its source does not name.
fn unused(package: &Value) -> anyhow::Result<Vec<String>> {
    let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
    let directory = manifest.parent().context("a manifest is nowhere")?;
    let mut source = String::new();
    collect(directory, &mut source)?;
    // Examples may be elsewhere.
    for target in package["targets"].as_array().into_iter().flatten() {
        let file = target["src_path"].as_str().unwrap_or_default();
        push_code(Path::new(file), &mut source)?;
    }
    let name = package["name"].as_str().unwrap_or_default();
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    let names = dependencies.filter_map(|it| it["rename"].as_str().or(it["name"].as_str()));
    let names: BTreeSet<&str> = names.collect();
    let is_unused = |dependency: &&str| {
        let known = UNNAMED.iter().any(|(of, it, _)| (of, it) == (&name, dependency));
        let identifier = dependency.replace('-', "_");
        let mut found = source.match_indices(&identifier);
        let is_path = |(start, _): (usize, &str)| {
            let before = source.get(..start).unwrap_or_default();
            let after = source.get(start + identifier.len()..).unwrap_or_default();
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            let is_imported = before.ends_with("use ") || before.ends_with("extern crate ");
            !before.ends_with(is_part) && (after.starts_with("::") || is_imported)
        };
        !known && !found.any(is_path)
    };
    let unused = names.into_iter().filter(is_unused);
    Ok(unused.map(|dependency| format!("{name} does not use `{dependency}`")).collect())
}

/// The text of all Rust files below a directory, without lines that are comments.
fn collect(directory: &Path, source: &mut String) -> anyhow::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, source)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            push_code(&path, source)?;
        }
    }
    Ok(())
}

/// Adds the lines of a file that are not comments.
fn push_code(path: &Path, source: &mut String) -> anyhow::Result<()> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
        source.push_str(line);
        source.push('\n');
    }
    Ok(())
}

/// The crates that the program has in two versions without a reason that is written down, and the reasons that
/// are not needed any more.
fn twice() -> anyhow::Result<Vec<String>> {
    let arguments =
        ["tree", "--duplicates", "--package", "callgate-cli", "--edges", "normal,build"];
    let listed = output(
        cargo()
            .args(arguments)
            .args(["--features", "full", "--edges", "normal,build"])
            .args(["--depth", "0", "--prefix", "none"])
            .current_dir(crate::root()),
    )?;
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in listed.lines() {
        let mut words = line.split(' ');
        if let (Some(name), Some(version)) = (words.next(), words.next()) {
            versions.entry(name).or_default().insert(version);
        }
    }
    // With other features for build scripts, a crate is listed twice in one version.
    versions.retain(|_, versions| versions.len() > 1);
    let is_known = |name: &str| TWICE.iter().any(|(known, _)| *known == name);
    let new = versions.iter().filter(|(name, _)| !is_known(name)).map(|(name, versions)| {
        let versions: Vec<&str> = versions.iter().copied().collect();
        format!("the program has `{name}` more than once: {}", versions.join(", "))
    });
    let old = TWICE.iter().filter(|(name, _)| !versions.contains_key(name));
    let old = old.map(|(name, _)| {
        format!("`{name}` is there once now: remove it from `TWICE` in xtask/src/dependencies.rs")
    });
    Ok(new.chain(old).collect())
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
