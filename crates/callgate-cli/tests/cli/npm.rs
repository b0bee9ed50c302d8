//! Packages of npm, installed where the build's files are, by whichever test comes first.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory of `tests/NAME` with its packages; these files of it are there too. To be called once
/// for each name.
pub(crate) fn installed(name: &str, files: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&target).unwrap();
    let wanted = std::fs::read_to_string(source.join("package-lock.json")).unwrap();
    let marker = target.join("installed.json");
    for file in ["package.json", "package-lock.json"].iter().chain(files) {
        std::fs::copy(source.join(file), target.join(file)).unwrap();
    }
    if std::fs::read_to_string(&marker).is_ok_and(|installed| installed == wanted) {
        return target;
    }
    let install = ["install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"];
    let output = Command::new("npm").args(install).current_dir(&target).output();
    let output = output.unwrap_or_else(|error| panic!("the tests of {name} need npm: {error}"));
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "npm cannot install {name}: {talk}");
    std::fs::write(marker, wanted).unwrap();
    target
}
