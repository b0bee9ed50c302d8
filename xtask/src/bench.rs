//! `cargo xtask bench`: the measurements, of the program as packages have it.

use crate::run::{Run, Step};

/// The package of the servers that the program is compared with, and of what compares them.
const COMPARED: &str = "callgate-bench";

/// Runs the measurements that have a word in their names, after the builds that they need.
pub(crate) fn bench(word: &str, run: &mut Run) {
    let names: Vec<String> = measurements().into_iter().map(|(step, _)| step.what).collect();
    if !names.iter().any(|name| name.contains(word)) {
        let problem = format!("no measurement has `{word}` in its name:\n{}", names.join("\n"));
        run.check("there is such a measurement", || Ok(vec![problem]));
        return;
    }
    for step in steps(word) {
        // A report of an older program would be wrong.
        if !run.step(&step) {
            return;
        }
    }
}

fn steps(word: &str) -> Vec<Step> {
    let mut wanted = measurements();
    wanted.retain(|(step, _)| step.what.contains(word));
    let mut steps = vec![crate::dist()];
    if wanted.iter().any(|(_, is_compared)| *is_compared) {
        let build = ["build", "--profile", "dist", "--package", COMPARED];
        steps.push(Step::cargo("the servers that it is compared with build", &build));
    }
    steps.extend(wanted.into_iter().map(|(step, _)| step));
    steps
}

/// The measurements, and whether each needs the servers that the program is compared with.
fn measurements() -> Vec<(Step, bool)> {
    let bench = |name| ["bench", "--profile", "dist", "--package", "callgate", "--bench", name];
    let faults = ["test", "--workspace", "--all-features", "--test", "cli", "--", "--ignored"];
    let faults = Step::cargo(
        "faults under load, start-up and what calls cost the database, to docs/internals/benchmarks/faults.md",
        &faults,
    );
    vec![
        (faults.arguments(&["--nocapture", "the_figures_of_the_page_on_reliability"]), false),
        report(
            "the bridge beside mcp-remote",
            "docs/internals/benchmarks/bridge.md",
            "bench-bridge",
            &[],
        ),
        (
            Step::cargo("a call through #[method], beside the function itself", &bench("method")),
            false,
        ),
        (Step::cargo("the catalog as it grows", &bench("catalog")), false),
        report(
            "a forwarded call beside nginx and hyper",
            "docs/internals/benchmarks/forward.md",
            "bench",
            &["--suite", "forward"],
        ),
        report(
            "calls to anvil one by one and in batches",
            "docs/internals/benchmarks/batch.md",
            "bench",
            &["--suite", "batch"],
        ),
        report(
            "the server beside bare axum and rmcp",
            "docs/internals/benchmarks/server.md",
            "bench",
            &[],
        ),
    ]
}

/// A measurement that writes a report.
fn report(what: &str, out: &str, program: &str, options: &[&str]) -> (Step, bool) {
    let run = ["run", "--profile", "dist", "--package", COMPARED, "--bin", program, "--"];
    let step = Step::cargo(format!("{what}, to {out}"), &run);
    (step.arguments(options).arguments(&["--out", out]), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_builds_what_it_needs() {
        let builds = |word| -> usize {
            steps(word)
                .iter()
                .filter(|step| step.what.ends_with(" builds") || step.what.ends_with(" build"))
                .count()
        };
        assert_eq!((builds("faults"), builds("bridge")), (1, 2));
        assert_eq!(steps("faults").len(), 2);
        assert_eq!(steps("").len(), 2 + measurements().len());
    }
}
