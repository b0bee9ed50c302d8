//! Checks, tests, measures and packages the project.

mod run;
mod files;
mod dependencies;
mod features;
mod documents;
mod behaviours;
mod unexplained_numbers;
mod spelling;
mod test;
mod bench;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use run::{Run, Step};

const USAGE: &str = "\
usage: cargo xtask check         Check format and lints, run the quick tests of changed packages
       cargo xtask test          Run all checks and tests, as CI does
       cargo xtask test clients  Load tools with frameworks from PyPI and npm, which are installed first
       cargo xtask docs          Check the documents
       cargo xtask behaviours    Write the table of behaviours and their tests
       cargo xtask bench [WORD]  Run all benchmarks, or only those with WORD in their names;
                                 options after WORD are passed to the benchmarks
       cargo xtask dist          Build the packaged program in target/dist, with man pages and completions";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut run = Run::default();
    match *arguments {
        ["check"] => test::check(&mut run),
        ["test"] => test::test(&mut run),
        ["test", "clients"] => test::clients(&mut run),
        ["behaviours"] => {
            run.check("write the table of behaviours", || behaviours::write(&root()));
        }
        ["docs"] => test::check_documents(&mut run),
        ["bench"] => bench::bench("", &[], &mut run),
        ["bench", filter, ref options @ ..] => bench::bench(filter, options, &mut run),
        ["dist"] => {
            if run.step(&dist()) {
                run.check("write man pages and completions", write_generated);
            }
        }
        _ => {
            print_line(USAGE);
            return ExitCode::from(2);
        }
    }
    run.finish()
}

/// Returns the build of the program that is packaged and measured.
fn dist() -> Step {
    let build = ["build", "--locked", "--profile", "dist", "--package", "callgate-cli"];
    Step::cargo("build the packaged program", &build).arguments(&["--features", "full"])
}

/// Writes the man pages and the completions of the packaged program to its directory. Returns no
/// problems.
fn write_generated() -> anyhow::Result<Vec<String>> {
    let directory = root().join("target/dist");
    let print = |arguments: &[&str]| {
        let output = Command::new(directory.join("callgate")).args(arguments).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "callgate {arguments:?}: {errors}");
        anyhow::Ok(output.stdout)
    };
    print(&["man", &directory.join("man").to_string_lossy()])?;
    let completions = directory.join("completions");
    std::fs::create_dir_all(&completions)?;
    for (shell, file) in
        [("bash", "callgate.bash"), ("fish", "callgate.fish"), ("zsh", "_callgate")]
    {
        std::fs::write(completions.join(file), print(&["completions", shell])?)?;
    }
    Ok(Vec::new())
}

/// Writes a line to standard output.
fn print_line(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Returns the root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
