//! npm packages, installed below `target`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, ensure};

/// Installs packages with exact versions. Returns the directory with `node_modules`.
pub fn install(packages: &[&str]) -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).context("program is not below the target directory")?;
    let directory = target.join("bench-npm");
    std::fs::create_dir_all(&directory)?;
    std::fs::write(directory.join("package.json"), r#"{"private": true}"#)?;
    let output = Command::new("npm")
        .args(["install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"])
        .args(packages)
        .current_dir(&directory)
        .output();
    let output = output.with_context(|| format!("failed to start npm for {packages:?}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "npm failed to install {packages:?}: {error}");
    Ok(directory)
}
