//! What npm brings, installed where the build's files are.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, ensure};

/// Installs packages, each with its exact version; the directory that has them in `node_modules`.
pub fn install(packages: &[&str]) -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).context("this program is nowhere")?;
    let directory = target.join("bench-npm");
    std::fs::create_dir_all(&directory)?;
    std::fs::write(directory.join("package.json"), r#"{"private": true}"#)?;
    let output = Command::new("npm")
        .args(["install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"])
        .args(packages)
        .current_dir(&directory)
        .output();
    let output = output.with_context(|| format!("{packages:?} need npm"))?;
    let talk = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "npm cannot install {packages:?}: {talk}");
    Ok(directory)
}
