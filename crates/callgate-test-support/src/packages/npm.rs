//! npm packages.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Installs the packages of `source/package-lock.json` unless they are up to date.
///
/// Returns the directory below `tmp` that contains `node_modules` and copies of `files`. The paths of `files` are
/// relative to `source`.
pub fn npm(tmp: &Path, source: &Path, files: &[&str]) -> PathBuf {
    let name = source.file_name().expect("path has a file name");
    let target = tmp.join(name);
    fs::create_dir_all(&target).expect("directory is writable");
    // Several test processes may install the packages at the same time.
    let lock = File::create(target.join("lock")).expect("directory is writable");
    lock.lock().expect("file can be locked");
    for file in ["package.json", "package-lock.json"].iter().chain(files) {
        let name = Path::new(file).file_name().expect("path has a file name");
        copy(&source.join(file), &target.join(name));
    }
    let expected = fs::read(source.join("package-lock.json")).expect("file is readable");
    let marker = target.join("installed.json");
    if fs::read(&marker).is_ok_and(|installed| installed == expected) {
        return target;
    }
    let install = ["install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"];
    let output = Command::new("npm").args(install).current_dir(&target).output();
    let output = output
        .unwrap_or_else(|error| panic!("failed to start npm for {}: {error}", source.display()));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "npm failed to install {}: {error}", source.display());
    fs::write(marker, expected).expect("file is writable");
    target
}

/// Copies a file only if its content differs, because another process may be reading it.
fn copy(from: &Path, to: &Path) {
    let content = fs::read(from).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    if fs::read(to).ok().as_ref() != Some(&content) {
        fs::write(to, content).expect("file is writable");
    }
}
