//! The folders of the library are layers: each uses only those below it.

use std::fs;
use std::path::{Path, PathBuf};

/// From the bottom to the top, in the order of the `mod` lines in `lib.rs`.
const LAYERS: [&str; 15] = [
    "backoff",
    "lru_cache",
    "secret",
    "wire",
    "access",
    "model",
    "catalog",
    "http_client",
    "upstream",
    "gateway",
    "mcp",
    "transport",
    "server",
    "bridge",
    "lint",
];

#[test]
fn a_layer_refers_only_to_the_layers_below_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut upward = Vec::new();
    for (height, layer) in LAYERS.iter().enumerate() {
        for file in sources(&root, layer) {
            let source = fs::read_to_string(&file).unwrap();
            let above = references(&source).filter(|name| {
                LAYERS.iter().position(|layer| layer == name).is_none_or(|other| other > height)
            });
            upward.extend(above.map(|name| format!("{}: crate::{name}", file.display())));
        }
    }
    assert!(upward.is_empty(), "{}", upward.join("\n"));
}

#[test]
fn the_layers_are_declared_from_the_bottom_to_the_top() {
    let lib = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    let declared = lib.lines().filter_map(|line| {
        let name = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("mod ")?;
        name.strip_suffix(';').filter(|name| !matches!(*name, "__private" | "fuzzing"))
    });
    assert!(declared.eq(LAYERS));
}

/// Returns `layer.rs` and every file below `layer/`, without tests.
fn sources(root: &Path, layer: &str) -> Vec<PathBuf> {
    let mut files = vec![root.join(layer).with_extension("rs")];
    let mut folders = vec![root.join(layer)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.retain(|file| !file.to_string_lossy().contains("tests"));
    files
}

/// Returns the first segments of paths that begin with `crate::`, outside comments and inline tests.
fn references(source: &str) -> impl Iterator<Item = &str> {
    let end = source.find("#[cfg(test)]\nmod tests {").unwrap_or(source.len());
    let code = source[..end].lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| line.split("crate::").skip(1))
        .filter_map(|path| path.split(|c: char| !c.is_alphanumeric() && c != '_').next())
}
