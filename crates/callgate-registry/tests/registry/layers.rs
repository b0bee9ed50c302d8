//! The crate's modules are layers: each uses only itself and the modules before it.

use std::fs;
use std::path::Path;

/// The layers of `src`, from data to network.
const LAYERS: [&str; 8] = ["hex", "db", "rows", "catalog", "festi", "store", "auth", "follow"];

#[test]
fn layers_use_only_the_layers_below_them() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut upward = Vec::new();
    for (level, layer) in LAYERS.iter().enumerate() {
        let mut files = vec![source.join(format!("{layer}.rs")), source.join(layer)];
        while let Some(path) = files.pop() {
            if path.is_dir() {
                files.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && !path
                    .components()
                    .any(|part| part.as_os_str().to_string_lossy().starts_with("tests"))
            {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                for used in code.split("crate::").skip(1) {
                    let name = used.split(|c: char| !c.is_alphanumeric() && c != '_').next();
                    let used = LAYERS.iter().position(|layer| Some(*layer) == name);
                    // Names of the crate root appear only in links of the documentation.
                    if used.is_some_and(|used| used > level) {
                        upward.push(format!("{} uses crate::{}", path.display(), name.unwrap()));
                    }
                }
            }
        }
    }
    assert_eq!(upward, Vec::<String>::new());
}

#[test]
fn every_module_of_the_root_is_a_layer() {
    let root =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    let lines = root.lines().map(|line| line.trim_start_matches("pub "));
    let modules: Vec<_> =
        lines.filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';')).collect();
    assert!(modules.iter().all(|module| LAYERS.contains(module)), "{modules:?}");
}
