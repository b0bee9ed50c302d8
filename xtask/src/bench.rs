//! `cargo xtask bench`: measures the packaged program.

use crate::run::{Run, Step};

/// Package of the benchmarks and of the servers for comparison.
const BENCHES: &str = "callgate-bench";

/// Builds and runs the benchmarks whose names contain `filter`. Passes `options` to them.
pub(crate) fn bench(filter: &str, options: &[&str], run: &mut Run) {
    let names: Vec<String> = benchmarks().into_iter().map(|it| it.step.name).collect();
    if !names.iter().any(|name| name.contains(filter)) {
        let problem = format!("no benchmark has `{filter}` in its name:\n{}", names.join("\n"));
        run.check("find the benchmark", || Ok(vec![problem]));
        return;
    }
    for step in steps(filter, options) {
        // If the build failed, the report would describe an older program.
        if !run.step(&step) {
            return;
        }
    }
}

fn steps(filter: &str, options: &[&str]) -> Vec<Step> {
    let mut selected = benchmarks();
    selected.retain(|it| it.step.name.contains(filter));
    let mut steps = vec![crate::dist()];
    if selected.iter().any(|it| it.needs_comparison_servers) {
        let build = ["build", "--profile", "dist", "--package", BENCHES];
        steps.push(Step::cargo("build the servers for comparison", &build));
    }
    for benchmark in selected {
        if benchmark.needs_symbols {
            steps.push(with_symbols());
        }
        steps.push(benchmark.step.arguments(options));
    }
    steps
}

/// A benchmark, and the builds it needs in addition to the packaged program.
struct Benchmark {
    step: Step,
    needs_comparison_servers: bool,
    needs_symbols: bool,
}

impl Benchmark {
    fn of(step: Step) -> Self {
        Self { step, needs_comparison_servers: false, needs_symbols: false }
    }
}

/// Returns the build of the packaged program that keeps the names of the functions.
fn with_symbols() -> Step {
    let build = ["rustc", "--locked", "--profile", "dist", "--package", "callgate-cli"];
    Step::cargo("keep the symbols of the packaged program", &build).arguments(&[
        "--features",
        "full",
        "--bin",
        "callgate",
        "--",
        "-C",
        "strip=none",
    ])
}

fn benchmarks() -> Vec<Benchmark> {
    let bench = |name| ["bench", "--profile", "dist", "--package", "callgate", "--bench", name];
    let hostile =
        ["run", "--profile", "dist", "--package", BENCHES, "--bin", "bench-hostile", "--"];
    let faults = ["test", "--workspace", "--all-features", "--test", "cli", "--", "--ignored"];
    let faults = Step::cargo(
        "faults under load, start-up and database statements of calls, to docs/internals/benchmarks/faults.md",
        &faults,
    );
    vec![
        Benchmark::of(faults.arguments(&["--nocapture", "measurements_update_the_page_on_faults"])),
        report(
            "the bridge compared with mcp-remote",
            "docs/internals/benchmarks/bridge.md",
            "bench-bridge",
            &[],
        ),
        Benchmark::of(Step::cargo(
            "a call through #[method] compared with a direct call",
            &bench("method"),
        )),
        Benchmark::of(Step::cargo("the catalog by size", &bench("catalog"))),
        report(
            "the packaged program compared with nginx, hyper and other gateways (forward)",
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
        Benchmark::of(Step::cargo("honest clients among hostile ones", &hostile)),
        Benchmark::of(
            Step::cargo("the time of replies about denied and unknown tools", &hostile)
                .arguments(&["--timing", "5000"]),
        ),
        Benchmark {
            needs_symbols: true,
            ..report(
                "instructions of a request",
                "docs/internals/benchmarks/instructions.md",
                "bench-instructions",
                &[],
            )
        },
        report(
            "the packaged program compared with axum and rmcp (server)",
            "docs/internals/benchmarks/server.md",
            "bench",
            &["--suite", "server"],
        ),
        report(
            "the packaged program by size of its registry (scale)",
            "docs/internals/benchmarks/scale.md",
            "bench",
            &["--suite", "scale"],
        ),
    ]
}

/// Returns a benchmark that writes a report.
fn report(name: &str, out: &str, program: &str, options: &[&str]) -> Benchmark {
    let run = ["run", "--profile", "dist", "--package", BENCHES, "--bin", program, "--"];
    let step = Step::cargo(format!("{name}, to {out}"), &run);
    let step = step.arguments(options).arguments(&["--out", out]);
    Benchmark { needs_comparison_servers: true, ..Benchmark::of(step) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_benchmark_builds_the_programs_that_it_needs() {
        let builds = |filter| -> usize {
            steps(filter, &[]).iter().filter(|step| step.name.starts_with("build ")).count()
        };
        assert_eq!((builds("faults"), builds("bridge")), (1, 2));
        assert_eq!(steps("faults", &[]).len(), 2);
        assert_eq!(steps("instructions", &[]).len(), 4);
        assert_eq!(steps("the packaged program", &[]).len(), 2 + 3);
        assert_eq!(steps("", &[]).len(), 3 + benchmarks().len());
    }
}
