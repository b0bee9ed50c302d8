//! `cargo xtask bench`: measures the packaged program.

use crate::run::{Run, Step};

/// Package of the benchmarks and of the servers for comparison.
const BENCHES: &str = "callgate-bench";

/// Builds and runs the benchmarks with a word in their names, with further options for them.
pub(crate) fn bench(word: &str, options: &[&str], run: &mut Run) {
    let names: Vec<String> = benchmarks().into_iter().map(|(step, _)| step.name).collect();
    if !names.iter().any(|name| name.contains(word)) {
        let problem = format!("no benchmark has `{word}` in its name:\n{}", names.join("\n"));
        run.check("find the benchmark", || Ok(vec![problem]));
        return;
    }
    for step in steps(word, options) {
        // After a failed build, the report would describe an older program.
        if !run.step(&step) {
            return;
        }
    }
}

fn steps(word: &str, options: &[&str]) -> Vec<Step> {
    let mut wanted = benchmarks();
    wanted.retain(|(step, _)| step.name.contains(word));
    let mut steps = vec![crate::dist()];
    if wanted.iter().any(|(_, needs_others)| *needs_others) {
        let build = ["build", "--profile", "dist", "--package", BENCHES];
        steps.push(Step::cargo("build the servers for comparison", &build));
    }
    steps.extend(wanted.into_iter().map(|(step, _)| step.arguments(options)));
    steps
}

/// Returns the benchmarks, and whether each needs the servers for comparison.
fn benchmarks() -> Vec<(Step, bool)> {
    let bench = |name| ["bench", "--profile", "dist", "--package", "callgate", "--bench", name];
    let hostile =
        ["run", "--profile", "dist", "--package", BENCHES, "--bin", "bench-hostile", "--"];
    let faults = ["test", "--workspace", "--all-features", "--test", "cli", "--", "--ignored"];
    let faults = Step::cargo(
        "faults under load, start-up and database statements of calls, to docs/internals/benchmarks/faults.md",
        &faults,
    );
    vec![
        (faults.arguments(&["--nocapture", "the_measurements_of_the_page_on_faults"]), false),
        report(
            "the bridge compared with mcp-remote",
            "docs/internals/benchmarks/bridge.md",
            "bench-bridge",
            &[],
        ),
        (
            Step::cargo("a call through #[method] compared with a direct call", &bench("method")),
            false,
        ),
        (Step::cargo("the catalog by size", &bench("catalog")), false),
        report(
            "a forwarded call compared with nginx and hyper",
            "docs/internals/benchmarks/forward.md",
            "bench",
            &["--suite", "forward"],
        ),
        report(
            "calls to anvil with and without batches",
            "docs/internals/benchmarks/batch.md",
            "bench",
            &["--suite", "batch"],
        ),
        (Step::cargo("honest clients among hostile ones", &hostile), false),
        (
            Step::cargo("the time of replies about denied and unknown tools", &hostile)
                .arguments(&["--timing", "5000"]),
            false,
        ),
        report(
            "the server compared with axum and rmcp",
            "docs/internals/benchmarks/server.md",
            "bench",
            &[],
        ),
    ]
}

/// Returns a benchmark that writes a report.
fn report(name: &str, out: &str, program: &str, options: &[&str]) -> (Step, bool) {
    let run = ["run", "--profile", "dist", "--package", BENCHES, "--bin", program, "--"];
    let step = Step::cargo(format!("{name}, to {out}"), &run);
    (step.arguments(options).arguments(&["--out", out]), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_benchmark_builds_the_programs_that_it_needs() {
        let builds = |word| -> usize {
            steps(word, &[]).iter().filter(|step| step.name.starts_with("build ")).count()
        };
        assert_eq!((builds("faults"), builds("bridge")), (1, 2));
        assert_eq!(steps("faults", &[]).len(), 2);
        assert_eq!(steps("", &[]).len(), 2 + benchmarks().len());
    }
}
