//! Programs of the workspace that tests start.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// Set by `cargo xtask test`, which builds the whole workspace before it runs a test.
pub const BUILT: &str = "XTASK_BUILT";

/// Returns the path of a program or an example of the workspace, built with the profile of this test.
///
/// Everything is built, with the features of a test run: a part of the workspace has other features, and most
/// of it would be compiled a second time.
pub fn built(name: &str) -> PathBuf {
    static PROFILE: OnceLock<PathBuf> = OnceLock::new();
    let profile = PROFILE.get_or_init(|| {
        let test = std::env::current_exe().expect("it runs");
        // `target/PROFILE`, with `deps` and this program in it.
        let profile = test.ancestors().nth(2).expect("cargo put it there").to_owned();
        if std::env::var_os(BUILT).is_none() {
            build(&profile);
        }
        profile
    });
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let places = [profile.join(&file), profile.join("examples").join(&file)];
    let found = places.into_iter().find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("the workspace has no program `{name}`"))
}

fn build(profile: &std::path::Path) {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--workspace", "--all-features"]);
    cargo.args(["--bins", "--examples", "--tests", "--target-dir"]);
    cargo.arg(profile.parent().expect("cargo put it there"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    if !profile.ends_with("debug") {
        cargo.arg("--profile").arg(profile.file_name().expect("cargo named it"));
    }
    let status = cargo.status().expect("there is cargo");
    assert!(status.success(), "the workspace cannot be built: {status}");
}
