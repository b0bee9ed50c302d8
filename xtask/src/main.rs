//! Everything that checks, measures and packages the project.

mod behaviours;
mod bench;
mod dependencies;
mod documents;
mod features;
mod run;
mod spelling;
mod test;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use run::{Run, Step};

const USAGE: &str = "\
usage: cargo xtask check         format, clippy and the quick tests of what changed
       cargo xtask test          everything, as CI runs it
       cargo xtask docs          the checks of the documents alone
       cargo xtask behaviours    writes the table of behaviours and their tests
       cargo xtask bench [WORD]  the measurements, or those with a word in their names
       cargo xtask dist          the program as packages have it, in target/dist";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut run = Run::default();
    match *arguments {
        ["check"] => test::check(&mut run),
        ["test"] => test::test(&mut run),
        ["behaviours"] => {
            run.check("the tests of the behaviours exist", || behaviours::write(&root()));
        }
        ["docs"] => test::check_documents(&mut run),
        ["bench"] => bench::bench("", &mut run),
        ["bench", word] => bench::bench(word, &mut run),
        ["dist"] => {
            run.step(&dist());
        }
        _ => {
            say(USAGE);
            return ExitCode::from(2);
        }
    }
    run.finish()
}

/// The build of what is packaged and measured.
fn dist() -> Step {
    let build = ["build", "--locked", "--profile", "dist", "--package", "callgate-cli"];
    Step::cargo("the packaged program builds", &build).arguments(&["--features", "full"])
}

/// Writes a line to standard output.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
