//! Packages of npm and `PyPI`, installed below `target`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, ensure};

/// Returns the target directory of this program.
pub fn target_directory() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).context("program is not below the target directory")?;
    Ok(target.to_owned())
}

/// Returns the path of a program that is in the same directory as this one.
pub fn program_path(name: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    ensure!(path.is_file(), "{} is not built", path.display());
    Ok(path)
}

/// Installs npm packages with exact versions. Returns the directory with `node_modules`.
pub fn install_npm(packages: &[&str]) -> anyhow::Result<PathBuf> {
    let directory = target_directory()?.join("bench-npm");
    std::fs::create_dir_all(&directory)?;
    std::fs::write(directory.join("package.json"), r#"{"private": true}"#)?;
    let install = ["install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"];
    run(Command::new("npm").args(install).args(packages).current_dir(&directory))?;
    Ok(directory)
}

/// Returns the native program of an npm package. npm installs the program as part of another package, which has the
/// same scope and is for this system only.
pub fn npm_binary(package: &str, scope: &str, program: &str) -> anyhow::Result<PathBuf> {
    let packages = install_npm(&[package])?.join("node_modules").join(scope);
    let mut all = std::fs::read_dir(&packages)?.filter_map(|entry| Some(entry.ok()?.path()));
    let program = all
        .find_map(|package| Some(package.join("bin").join(program)).filter(|path| path.exists()));
    program.with_context(|| format!("{package} has no binary for this system"))
}

/// Installs a package of `PyPI` with an exact version into a virtual environment. Returns the Python interpreter of the
/// environment.
pub fn install_pypi(package: &str) -> anyhow::Result<PathBuf> {
    let directory = target_directory()?.join("bench-pypi").join(package);
    let python = directory.join("bin/python");
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", package];
    let marker = directory.join("complete");
    if !marker.exists() {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&directory))?;
        run(Command::new(&python).args(install))?;
        std::fs::write(marker, "")?;
    }
    Ok(python)
}

/// Runs a command and returns its output.
pub fn run(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("failed to start {command:?}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}", stderr.trim());
    // nginx prints its version to stderr.
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    Ok(String::from_utf8_lossy(&text).trim().to_owned())
}
