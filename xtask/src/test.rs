//! `cargo xtask test` and `cargo xtask check`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::Context as _;
use callgate_test_support::{DatabaseServer, Engine, WORKSPACE_BUILT, debian, npm};
use serde_json::Value;

use crate::files::orphans;
use crate::run::{Run, Step, panic_message};
use crate::{behaviours, dependencies, documents, features, root, spelling, unexplained_numbers};

/// Arguments for the whole workspace. All builds and tests use them, so that each crate is compiled
/// with only one set of features.
const WORKSPACE: [&str; 2] = ["--workspace", "--all-features"];

/// Filter of the tests that need the SQL Server emulator.
const SQL_SERVER: &str = "test(sql_server)";

/// Runs all checks and tests.
pub(crate) fn test(run: &mut Run) {
    let target = target();
    let downloads = thread::spawn({
        let tmp = target.join("tmp");
        move || download(&tmp)
    });
    let is_built = check_and_build(run);
    run.check("download packages", || {
        Ok(downloads.join().err().map(|panic| panic_message(&*panic)).into_iter().collect())
    });
    run.check("check the spelling", || spelling::problems(&target.join("tmp")));
    if !is_built {
        return;
    }
    let (mut servers, mut checks) = (None, Vec::new());
    run.check("start the database servers", || {
        servers = Some(Servers::start(&target.join("tmp")));
        Ok(Vec::new())
    });
    run.check("list the features", || {
        checks = documentation_and_features()?;
        Ok(Vec::new())
    });
    let Some(servers) = servers else { return };
    match Nextest::new(&target) {
        Some(Ok(nextest)) => test_while_checking(&nextest, &servers, checks, run),
        Some(Err(error)) => run.check("list the tests", || Err(error)),
        None => {
            run.step(&build_emulator());
            let tests = Step::cargo("run all tests", &["test", "--no-fail-fast"]);
            run.step(&servers.with_addresses(linted(tests.arguments(&WORKSPACE))));
            for step in checks {
                run.step(&step);
            }
        }
    }
}

/// Runs the tests with frameworks. Installing the frameworks takes minutes.
pub(crate) fn clients(run: &mut Run) {
    let tests = Step::cargo("load tools with frameworks", &["test", "--test", "cli"]);
    let filter = ["--", "--ignored", "--nocapture", "clients::frameworks"];
    run.step(&linted(tests.arguments(&WORKSPACE)).arguments(&filter));
}

/// Runs the tests together with builds at low priority, because the tests wait most of the time.
fn test_while_checking(nextest: &Nextest, servers: &Servers, checks: Vec<Step>, run: &mut Run) {
    thread::scope(|scope| {
        let background = scope.spawn(move || {
            let steps = [build_emulator(), doc_tests()].into_iter().chain(checks);
            let steps = steps.map(|step| step.in_background().run());
            steps.collect::<Vec<_>>()
        });
        let tests = nextest.step("run the tests", &format!("not {SQL_SERVER}"));
        run.step(&servers.with_addresses(tests));
        match background.join() {
            Ok(results) => {
                for result in results {
                    run.add(result);
                }
            }
            Err(panic) => {
                run.check("run the checks beside the tests", || Ok(vec![panic_message(&*panic)]));
            }
        }
    });
    let tests = nextest.step("run the tests with the SQL Server emulator", SQL_SERVER);
    run.step(&servers.with_addresses(tests));
}

/// Checks format and lints, and runs the quick tests of the packages that differ from the last commit. If no package
/// differs, runs all quick tests.
pub(crate) fn check(run: &mut Run) {
    if !check_and_build(run) {
        return;
    }
    let mut packages = BTreeSet::new();
    run.check("list the changed packages", || {
        packages = changed_packages()?;
        Ok(Vec::new())
    });
    let packages: Vec<String> = packages.iter().map(|name| format!("package({name})")).collect();
    let filter = if packages.is_empty() { "all()".to_owned() } else { packages.join(" | ") };
    match Nextest::new(&target()) {
        Some(Ok(nextest)) => {
            let tests = nextest.step("run the quick tests", &filter);
            // A package may have no quick tests.
            run.step(&tests.arguments(&["--profile", "quick", "--no-tests", "pass"]));
        }
        Some(Err(error)) => run.check("list the tests", || Err(error)),
        None => {
            let tests = Step::cargo("run the unit tests", &["test", "--lib", "--bins"]);
            run.step(&linted(tests.arguments(&WORKSPACE)));
        }
    }
}

/// Runs the checks that take about a second, then builds everything. Returns `true` if the build succeeds.
fn check_and_build(run: &mut Run) -> bool {
    run.step(&Step::cargo("check the format", &["fmt", "--all", "--check"]));
    check_documents(run);
    run.check("check that all source files are compiled", || orphans(&root()));
    run.check("check the dependencies", dependencies::problems);
    run.step(&build())
}

/// Checks the documents.
pub(crate) fn check_documents(run: &mut Run) {
    run.check("check the documents", documents::problems);
    run.check("check the table of behaviours", || behaviours::problems(&root()));
    run.check("check for numbers without a meaning", || unexplained_numbers::problems(&root()));
}

/// Builds every target for the tests, with clippy as the compiler of the workspace's crates.
fn build() -> Step {
    let step = Step::cargo("build everything with clippy", &["build"]);
    // With `--lib`, the macro crate would be built with a second profile.
    let targets = ["--bins", "--examples", "--tests", "--benches"];
    linted(step.arguments(&WORKSPACE).arguments(&targets))
}

/// Sets clippy, which is rustc with more lints, as the compiler of the workspace's crates.
fn linted(step: Step) -> Step {
    let step = step
        .variable("RUSTC_WORKSPACE_WRAPPER", clippy_driver())
        // The separator of arguments that `cargo clippy` uses.
        .variable("CLIPPY_ARGS", "-Dwarnings__CLIPPY_HACKERY__")
        // With this value, a changed snapshot fails the test and writes no file.
        .variable("INSTA_UPDATE", "no");
    if std::env::var_os("CI").is_none() {
        return step;
    }
    // CI builds once, so incremental compilation only costs time. In CI, property tests use the
    // same values in each run, so that the result depends only on the commit. Outside of CI, each
    // run uses new values.
    step.variable("CARGO_INCREMENTAL", "0").variable("PROPTEST_RNG_SEED", "1")
}

/// Returns the `clippy-driver` in the directory of this cargo. The one on `PATH` may be a slow rustup proxy.
fn clippy_driver() -> String {
    let name = format!("clippy-driver{}", std::env::consts::EXE_SUFFIX);
    let cargo = std::env::var_os("CARGO").map(PathBuf::from);
    let sibling = cargo.map(|cargo| cargo.with_file_name(&name)).filter(|path| path.is_file());
    sibling.map_or(name, |path| path.to_string_lossy().into_owned())
}

fn doc_tests() -> Step {
    let step = Step::cargo("run the examples in the documentation", &["test", "--doc"]);
    linted(step.arguments(&WORKSPACE))
}

fn documentation_and_features() -> anyhow::Result<Vec<Step>> {
    let documentation = Step::cargo("build the documentation", &["doc"])
        .arguments(&WORKSPACE)
        .arguments(&["--no-deps", "--quiet"])
        .variable("RUSTDOCFLAGS", "-D warnings");
    let features = features::steps(&dependencies::metadata()?)?;
    Ok([documentation].into_iter().chain(features).collect())
}

/// Returns a step that builds the SQL Server emulator. It is a separate process, so that it can have low priority.
fn build_emulator() -> Step {
    let arguments =
        ["run", "--quiet", "--package", "callgate-test-support", "--bin", "build-tools"];
    Step::cargo("build the SQL Server emulator", &arguments)
}

/// Downloads the programs that tests start and that are not installed. Runs while the workspace is
/// compiled.
fn download(tmp: &Path) {
    let tests = root().join("crates/callgate-cli/tests");
    thread::scope(|scope| {
        let packages = ["clients", "servers"].map(|directory| {
            let source = tests.join(directory);
            scope.spawn(move || npm(tmp, &source, &[]))
        });
        spelling::hunspell(tmp);
        for (package, program) in [
            ("aria2", "aria2c"),
            ("deluge-web", "deluge-web"),
            ("electrum", "electrum"),
            ("litecoind", "litecoind"),
            ("monero", "monerod"),
            ("nginx", "nginx"),
            ("php-cli", "php"),
            ("transmission-daemon", "transmission-daemon"),
        ] {
            debian(tmp, package, program);
        }
        // Creates the initial data directories of the database servers.
        drop(Servers::start(tmp));
        for installed in packages {
            // Otherwise, the scope would replace the message of the panic.
            installed.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
}

/// Database servers that all test processes share.
struct Servers {
    servers: [(Engine, DatabaseServer); 2],
}

impl Servers {
    fn start(tmp: &Path) -> Self {
        Self { servers: Engine::ALL.map(|engine| (engine, engine.start(tmp))) }
    }

    /// Returns the step with the addresses of the servers in its environment.
    fn with_addresses(&self, step: Step) -> Step {
        let step = step.variable(WORKSPACE_BUILT, "1");
        self.servers.iter().fold(step, |step, (engine, server)| {
            step.variable(engine.env_var(), server.address().to_string())
        })
    }
}

/// `cargo nextest` and its list of test programs.
struct Nextest {
    cargo_metadata: PathBuf,
    binaries_metadata: PathBuf,
}

impl Nextest {
    /// Lists the test programs. Returns `None` if nextest is not installed.
    ///
    /// A run with this list does not start cargo, which would wait for concurrent builds.
    fn new(target: &Path) -> Option<anyhow::Result<Self>> {
        let version = cargo().args(["nextest", "--version"]).output();
        version.is_ok_and(|output| output.status.success()).then(|| {
            let (cargo_metadata, binaries_metadata) =
                (target.join("nextest-cargo.json"), target.join("nextest-binaries.json"));
            let metadata = ["metadata", "--format-version", "1", "--all-features"];
            fs::write(&cargo_metadata, output(cargo().args(metadata))?)?;
            let list = Step::cargo("", &["nextest", "list", "--list-type", "binaries-only"]);
            let list = linted(list.arguments(&WORKSPACE).arguments(&["--message-format", "json"]));
            fs::write(&binaries_metadata, output(&mut list.command())?)?;
            Ok(Self { cargo_metadata, binaries_metadata })
        })
    }

    fn step(&self, name: &str, filter: &str) -> Step {
        let arguments =
            ["nextest", "run", "--no-fail-fast", "--color", "never", "--cargo-metadata"];
        let step = Step::cargo(name, &arguments)
            .arguments(&[&self.cargo_metadata.to_string_lossy(), "--binaries-metadata"])
            .arguments(&[&self.binaries_metadata.to_string_lossy(), "--filterset", filter])
            .arguments(&["--hide-progress-bar"]);
        linted(step)
    }
}

/// Returns the packages with files that differ from the last commit.
fn changed_packages() -> anyhow::Result<BTreeSet<String>> {
    let status = ["status", "--porcelain", "--untracked-files=all", "--no-renames"];
    let changed = output(Command::new("git").args(status).current_dir(root()))?;
    let metadata = dependencies::metadata()?;
    let workspace = metadata.get("workspace_root").and_then(Value::as_str).unwrap_or_default();
    let files = changed.lines().filter_map(|line| line.get(3..));
    let files: Vec<PathBuf> = files.map(|file| Path::new(workspace).join(file)).collect();
    let is_changed = |package: &&Value| {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let directory = manifest.parent().filter(|it| it.starts_with(workspace));
        directory.is_some_and(|directory| files.iter().any(|file| file.starts_with(directory)))
    };
    let names = dependencies::packages(&metadata)
        .filter(is_changed)
        .filter_map(|package| package["name"].as_str());
    Ok(names.map(ToOwned::to_owned).collect())
}

/// Runs a command. Returns its standard output.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("failed to start {command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{command:?}: {errors}");
    Ok(String::from_utf8(output.stdout)?)
}

pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Returns the target directory, from the path of this program.
fn target() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    program.ancestors().nth(2).map_or_else(|| root().join("target"), Path::to_owned)
}
