//! Builds what tests start and no package has, before they do: `cargo xtask test` runs it.
#![expect(clippy::expect_used, reason = "for tests, which may stop")]

use callgate_throwaway::StandIn;

fn main() {
    let program = std::env::current_exe().expect("it runs");
    // `target`, with `debug` and this program in it.
    let target = program.ancestors().nth(2).expect("cargo put it there");
    StandIn::build(target);
}
