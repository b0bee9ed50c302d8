//! Everything that checks the project: `cargo xtask test`, and `cargo xtask bench`.

mod behaviours;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context as _;

/// One thing that is checked.
struct Step {
    what: &'static str,
    arguments: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
}

const TEST: &[Step] = &[
    Step { what: "the code is formatted", arguments: &["fmt", "--all", "--check"], variables: &[] },
    Step {
        what: "clippy finds nothing",
        arguments: &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--",
            "-D",
            "warnings",
        ],
        variables: &[],
    },
    Step {
        what: "the domain builds without its optional features",
        arguments: &[
            "clippy",
            "--package",
            "callgate",
            "--no-default-features",
            "--",
            "-D",
            "warnings",
        ],
        variables: &[],
    },
    Step {
        what: "an upstream needs no other optional feature",
        arguments: &[
            "clippy",
            "--package",
            "callgate",
            "--no-default-features",
            "--features",
            "forward",
            "--",
            "-D",
            "warnings",
        ],
        variables: &[],
    },
    Step {
        what: "the program needs no database but SQLite",
        arguments: &[
            "clippy",
            "--package",
            "callgate-cli",
            "--no-default-features",
            "--",
            "-D",
            "warnings",
        ],
        variables: &[],
    },
    Step {
        what: "what the tests start is built",
        arguments: &["run", "--package", "callgate-throwaway", "--bin", "build-tools"],
        variables: &[],
    },
    Step {
        what: "the tests and the examples in the documentation pass",
        arguments: &["test", "--workspace", "--all-features", "--no-fail-fast"],
        // A snapshot that differs is a failure, never a new file.
        variables: &[("INSTA_UPDATE", "no")],
    },
    Step {
        what: "the documentation builds without warnings",
        arguments: &["doc", "--workspace", "--all-features", "--no-deps"],
        variables: &[("RUSTDOCFLAGS", "-D warnings")],
    },
];

/// A measurement that writes a report.
macro_rules! report {
    ($what:literal, $out:literal, $program:literal $(, $option:literal)*) => {
        Step {
            what: concat!($what, ", to ", $out),
            arguments: &[
                "run", "--release", "--package", COMPARED, "--bin", $program, "--",
                $($option,)* "--out", $out,
            ],
            variables: &[],
        }
    };
}

/// The package of the servers that the program is compared with, and of what compares them.
const COMPARED: &str = "callgate-bench";

const BENCH: &[Step] = &[
    Step {
        what: "the program is built",
        arguments: &["build", "--release", "--package", "callgate-cli"],
        variables: &[],
    },
    Step {
        what: "the servers that it is compared with are built",
        arguments: &["build", "--release", "--package", COMPARED],
        variables: &[],
    },
    Step {
        what: "faults under load, start-up and what calls cost the database, to docs/reliability.md",
        // Built as the tests are.
        arguments: &[
            "test",
            "--workspace",
            "--all-features",
            "--test",
            "cli",
            "--",
            "--ignored",
            "--nocapture",
            "the_figures_of_the_page_on_reliability",
        ],
        variables: &[],
    },
    report!("the bridge beside mcp-remote", "docs/benchmarks-bridge.md", "bench-bridge"),
    Step {
        what: "a call through #[method], beside the function itself",
        arguments: &["bench", "--package", "callgate", "--bench", "method"],
        variables: &[],
    },
    Step {
        what: "the catalog as it grows",
        arguments: &["bench", "--package", "callgate", "--bench", "catalog"],
        variables: &[],
    },
    report!(
        "a forwarded call beside nginx and hyper",
        "docs/benchmarks-forward.md",
        "bench",
        "--suite",
        "forward"
    ),
    report!(
        "calls to anvil one by one and in batches",
        "docs/benchmarks-batch.md",
        "bench",
        "--suite",
        "batch"
    ),
    report!("the server beside bare axum and rmcp", "docs/benchmarks.md", "bench"),
];

/// What passed and what did not.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    passed: u64,
    failed: u64,
}

fn main() -> ExitCode {
    let steps = match std::env::args().nth(1).as_deref() {
        Some("test") => TEST,
        Some("bench") => BENCH,
        _ => {
            say("usage: cargo xtask test | bench [WORD]");
            return ExitCode::from(2);
        }
    };
    let mut counts = Counts::default();
    if std::ptr::eq(steps, BENCH) {
        for step in measurements(&std::env::args().nth(2).unwrap_or_default()) {
            run(step, &mut counts);
        }
    } else {
        // Checks are always all of them.
        for step in steps {
            run(step, &mut counts);
        }
    }
    if std::ptr::eq(steps, TEST) {
        check_behaviours(&mut counts);
    }
    say(&format!("\n{} passed, {} failed", counts.passed, counts.failed));
    if counts.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The measurements that have a word in what they say, after what builds the programs that they need.
fn measurements(word: &str) -> Vec<&'static Step> {
    let is_build = |step: &Step| step.arguments.first() == Some(&"build");
    let wanted = |step: &Step| !is_build(step) && step.what.contains(word);
    let compares = |step: &Step| step.arguments.contains(&COMPARED);
    let is_compared = BENCH.iter().any(|step| wanted(step) && compares(step));
    let is_needed = |step: &Step| is_build(step) && (is_compared || !compares(step));
    BENCH.iter().filter(|step| wanted(step) || is_needed(step)).collect()
}

fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Runs a step. A step counts as one; a test runner's own tests count one by one.
fn run(step: &Step, counts: &mut Counts) {
    let variables: Vec<String> =
        step.variables.iter().map(|(name, value)| format!("{name}='{value}'")).collect();
    let command = [variables.join(" "), "cargo".to_owned(), step.arguments.join(" ")].join(" ");
    say(&format!("\n== {}: {}", step.what, command.trim_start()));
    let mut tests = Counts::default();
    let succeeded = execute(step, &mut tests).unwrap_or_else(|error| {
        say(&format!("{error:#}"));
        false
    });
    counts.passed += tests.passed;
    counts.failed += tests.failed;
    match (succeeded, tests.failed) {
        (true, _) => counts.passed += 1,
        // Its own failures say it already.
        (false, 1..) => {}
        (false, 0) => counts.failed += 1,
    }
    if !succeeded {
        say(&format!("FAILED: {}", step.what));
    }
}

fn execute(step: &Step, tests: &mut Counts) -> anyhow::Result<bool> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut child = Command::new(cargo)
        .args(step.arguments)
        .envs(step.variables.iter().copied())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo")?;
    let output = child.stdout.take().context("cargo has no output")?;
    for line in BufReader::new(output).lines() {
        let line = line.context("cannot read what cargo says")?;
        say(&line);
        if let Some(result) = line.trim().strip_prefix("test result:") {
            tests.passed += count(result, "passed");
            tests.failed += count(result, "failed");
        }
    }
    Ok(child.wait().context("cannot wait for cargo")?.success())
}

/// Every test that docs/behaviours.md names must be there, and every behaviour must have one.
fn check_behaviours(counts: &mut Counts) {
    say("\n== docs/behaviours.md names tests that exist");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let problems = match behaviours::problems(&root) {
        Ok(problems) => problems,
        Err(error) => vec![format!("{error:#}")],
    };
    for problem in &problems {
        say(problem);
    }
    if problems.is_empty() {
        counts.passed += 1;
    } else {
        counts.failed += 1;
        say("FAILED: docs/behaviours.md");
    }
}

/// The number before a word, as in `ok. 12 passed; 0 failed; 0 ignored`.
fn count(result: &str, word: &str) -> u64 {
    let part = result.split([';', '.']).find_map(|part| part.trim().strip_suffix(word));
    part.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_builds_what_it_needs() {
        let packages = |word| -> Vec<&str> {
            let builds = measurements(word).into_iter().filter(|it| it.arguments[0] == "build");
            builds.map(|it| it.arguments[it.arguments.len() - 1]).collect()
        };
        assert_eq!(packages("faults"), ["callgate-cli"]);
        assert_eq!(packages("bridge"), ["callgate-cli", "callgate-bench"]);
        assert_eq!(measurements("faults").len(), 2);
        assert_eq!(measurements("").len(), BENCH.len());
    }

    #[test]
    fn the_runners_closing_line_is_read() {
        let line = " FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!((count(line, "passed"), count(line, "failed")), (12, 3));
    }
}
