//! Compile errors of the attributes: each file in `tests/ui` fails to compile with the errors of its snapshot.
//!
//! The tests run rustc with the library that cargo built for this test. trybuild would compile every dependency again.
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "tests panic on failure")]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::SystemTime;

/// Compiles a file, or standard input for `-`.
fn compile(library: &Path, file: &str, input: &str) -> Output {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition=2024", "--emit=metadata", "--crate-name=ui", "--color=never"]);
    rustc.arg("--out-dir").arg(env!("CARGO_TARGET_TMPDIR")).arg("--extern");
    rustc.arg(format!("callgate={}", library.display()));
    rustc.arg(format!("-Ldependency={}", library.parent().unwrap().display())).arg(file);
    rustc.current_dir(env!("CARGO_MANIFEST_DIR"));
    rustc.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = rustc.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Returns the newest build of the library that has the attributes.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let files = fs::read_dir(test.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let is_library = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libcallgate-") && path.extension().is_some_and(|it| it == "rlib")
    };
    let mut libraries: Vec<(SystemTime, PathBuf)> = files
        .filter(is_library)
        .map(|path| (path.metadata().unwrap().modified().unwrap(), path))
        .collect();
    libraries.sort();
    let has_attributes = |library: &Path| {
        let source = "#[callgate::method(read_only)]\nfn works() {}\nfn main() {}\n";
        compile(library, "-", source).status.success()
    };
    let mut libraries = libraries.into_iter().rev().map(|(_, library)| library);
    libraries
        .find(|library| has_attributes(library))
        .expect("cargo built the library for this test")
}

#[test]
fn errors_of_the_attributes_are_reported_together_with_the_expected_form() {
    let library = library();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui");
    let mut count = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        count += 1;
        let name = path.file_stem().unwrap().to_str().unwrap();
        let output = compile(&library, &format!("tests/ui/{name}.rs"), "");
        assert!(!output.status.success(), "{name} compiles");
        let errors = String::from_utf8(output.stderr).unwrap();
        // The remaining lines are a summary.
        let (errors, _) = errors.split_once("error: aborting due to").unwrap();
        insta::assert_snapshot!(name, errors);
    }
    assert_eq!(count, 5);
}
