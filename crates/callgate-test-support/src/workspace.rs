//! Programs of the workspace that tests start.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// Environment variable that `cargo xtask test` sets after building the workspace.
pub const WORKSPACE_BUILT: &str = "XTASK_BUILT";

/// Returns the path of a program or an example of the workspace, built with the profile of this test.
///
/// Unless `XTASK_BUILT` is set, builds the whole workspace with all features, as a test run does. With other
/// features, the workspace would be compiled a second time.
pub fn workspace_program(name: &str) -> PathBuf {
    static PROFILE: OnceLock<PathBuf> = OnceLock::new();
    let profile = PROFILE.get_or_init(|| {
        let test = std::env::current_exe().expect("program has a path");
        // The program is in `target/PROFILE/deps`.
        let profile =
            test.ancestors().nth(2).expect("program is below the target directory").to_owned();
        if std::env::var_os(WORKSPACE_BUILT).is_none() {
            build(&profile);
        }
        profile
    });
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let paths = [profile.join(&file), profile.join("examples").join(&file)];
    let found = paths.into_iter().find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("the workspace has no program `{name}`"))
}

fn build(profile: &std::path::Path) {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--workspace", "--all-features"]);
    cargo.args(["--bins", "--examples", "--tests", "--target-dir"]);
    cargo.arg(profile.parent().expect("program is below the target directory"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    if !profile.ends_with("debug") {
        cargo.arg("--profile").arg(profile.file_name().expect("profile has a directory"));
    }
    let status = cargo.status().expect("cargo starts");
    assert!(status.success(), "failed to build the workspace: {status}");
}
