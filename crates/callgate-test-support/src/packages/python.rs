//! Python packages.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Installs packages, such as `mcp==1.30.0`, into a virtual environment below `tmp` unless they are up to date. Returns
/// the path of Python in this environment.
pub fn python(tmp: &Path, name: &str, packages: &[&str]) -> PathBuf {
    let target = tmp.join("python").join(name);
    fs::create_dir_all(&target).expect("directory is writable");
    let lock = File::create(target.join("lock")).expect("directory is writable");
    lock.lock().expect("file can be locked");
    let python = target.join("bin/python");
    let (marker, expected) = (target.join("installed.txt"), packages.join("\n"));
    if fs::read_to_string(&marker).is_ok_and(|installed| installed == expected) {
        return python;
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&target));
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    run(Command::new(&python).args(install).args(packages));
    fs::write(marker, expected).expect("file is writable");
    python
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
}
