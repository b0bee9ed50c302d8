//! Builds the SQL Server emulator before tests use it. `cargo xtask test` runs this program.
#![expect(clippy::expect_used, reason = "test code panics on failure")]

use callgate_test_support::SqlServerEmulator;

fn main() {
    let program = std::env::current_exe().expect("program has a path");
    // The program is in `target/PROFILE`.
    let target = program.ancestors().nth(2).expect("program is below the target directory");
    SqlServerEmulator::build(target);
}
