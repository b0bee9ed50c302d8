//! Packages of npm, installed below the build's files.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Installs the packages that `source/package-lock.json` names, unless they are there. Returns the directory
/// below `tmp` that has them, and copies of `files`, whose paths are relative to `source`.
pub fn npm(tmp: &Path, source: &Path, files: &[&str]) -> PathBuf {
    let name = source.file_name().expect("it has a name");
    let target = tmp.join(name);
    fs::create_dir_all(&target).expect("can be made");
    // Several processes may want the packages at once.
    let lock = File::create(target.join("lock")).expect("can be made");
    lock.lock().expect("can be locked");
    for file in ["package.json", "package-lock.json"].iter().chain(files) {
        let name = Path::new(file).file_name().expect("it has a name");
        copy(&source.join(file), &target.join(name));
    }
    let wanted = fs::read(source.join("package-lock.json")).expect("can be read");
    let marker = target.join("installed.json");
    if fs::read(&marker).is_ok_and(|installed| installed == wanted) {
        return target;
    }
    let install = ["install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"];
    let output = Command::new("npm").args(install).current_dir(&target).output();
    let output = output.unwrap_or_else(|error| panic!("{} needs npm: {error}", source.display()));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "npm cannot install {}: {error}", source.display());
    fs::write(marker, wanted).expect("can be written");
    target
}

/// Copies a file if the copy differs: another process may be reading it.
fn copy(from: &Path, to: &Path) {
    let text = fs::read(from).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    if fs::read(to).ok().as_ref() != Some(&text) {
        fs::write(to, text).expect("can be written");
    }
}
