//! `cargo xtask test` and `cargo xtask check`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::Context as _;
use callgate_test_support::{DatabaseServer, Engine, WORKSPACE_BUILT, debian, npm};
use serde_json::Value;

use crate::run::{Run, Step, panic_message};
use crate::{behaviours, dependencies, documents, features, root, spelling};

/// What is built and tested: the whole workspace at once, so that each crate has one set of features.
const WORKSPACE: [&str; 2] = ["--workspace", "--all-features"];

/// The tests that need the stand-in for SQL Server.
const SQL_SERVER: &str = "test(sql_server)";

/// Runs everything.
pub(crate) fn test(run: &mut Run) {
    let target = target();
    let downloads = thread::spawn({
        let tmp = target.join("tmp");
        move || download(&tmp)
    });
    let is_built = check_and_build(run);
    run.check("what tests start is downloaded", || {
        Ok(downloads.join().err().map(|panic| panic_message(&*panic)).into_iter().collect())
    });
    run.check("the words are spelled right", || spelling::problems(&target.join("tmp")));
    if !is_built {
        return;
    }
    let (mut servers, mut checks) = (None, Vec::new());
    run.check("the database servers start", || {
        servers = Some(Servers::start(&target.join("tmp")));
        Ok(Vec::new())
    });
    run.check("the features are listed", || {
        checks = documentation_and_features()?;
        Ok(Vec::new())
    });
    let Some(servers) = servers else { return };
    match Nextest::new(&target) {
        Some(Ok(nextest)) => test_beside_checks(&nextest, &servers, checks, run),
        Some(Err(error)) => run.check("the tests are listed", || Err(error)),
        None => {
            run.step(&stand_in());
            let tests = Step::cargo("all tests pass", &["test", "--no-fail-fast"]);
            run.step(&servers.told(linted(tests.arguments(&WORKSPACE))));
            for step in checks {
                run.step(&step);
            }
        }
    }
}

/// Runs the tests, which wait much of their time, beside builds that only use what they leave.
fn test_beside_checks(nextest: &Nextest, servers: &Servers, checks: Vec<Step>, run: &mut Run) {
    thread::scope(|scope| {
        let background = scope.spawn(move || {
            let steps = [stand_in(), doc_tests()].into_iter().chain(checks);
            let steps = steps.map(|step| step.in_background().run());
            steps.collect::<Vec<_>>()
        });
        let tests = nextest.step("the tests pass", &format!("not {SQL_SERVER}"));
        run.step(&servers.told(tests));
        match background.join() {
            Ok(all) => {
                for done in all {
                    run.add(done);
                }
            }
            Err(panic) => {
                run.check("the checks beside the tests run", || Ok(vec![panic_message(&*panic)]));
            }
        }
    });
    let tests = nextest.step("the tests with SQL Server's stand-in pass", SQL_SERVER);
    run.step(&servers.told(tests));
}

/// Runs format, clippy and the quick tests of what changed since the last commit, or of everything if nothing
/// did.
pub(crate) fn check(run: &mut Run) {
    if !check_and_build(run) {
        return;
    }
    let mut packages = BTreeSet::new();
    run.check("what changed is known", || {
        packages = changed_packages()?;
        Ok(Vec::new())
    });
    let packages: Vec<String> = packages.iter().map(|name| format!("package({name})")).collect();
    let filter = if packages.is_empty() { "all()".to_owned() } else { packages.join(" | ") };
    match Nextest::new(&target()) {
        Some(Ok(nextest)) => {
            let tests = nextest.step("the quick tests of what changed pass", &filter);
            // A package may have no quick tests.
            run.step(&tests.arguments(&["--profile", "quick", "--no-tests", "pass"]));
        }
        Some(Err(error)) => run.check("the tests are listed", || Err(error)),
        None => {
            let tests = Step::cargo("the unit tests pass", &["test", "--lib", "--bins"]);
            run.step(&linted(tests.arguments(&WORKSPACE)));
        }
    }
}

/// Runs what takes a second each, then builds everything. Returns whether it builds.
fn check_and_build(run: &mut Run) -> bool {
    run.step(&Step::cargo("the code is formatted", &["fmt", "--all", "--check"]));
    check_documents(run);
    run.check("the dependencies are right", dependencies::problems);
    run.step(&build())
}

/// Checks the links, the commands and the table of behaviours in the documents.
pub(crate) fn check_documents(run: &mut Run) {
    run.check("the documents are right", documents::problems);
    run.check("the table of behaviours is up to date", || behaviours::problems(&root()));
}

/// Builds every target once, for the tests, with clippy as the compiler of the workspace's own crates.
fn build() -> Step {
    let step = Step::cargo("clippy finds nothing, and everything builds", &["build"]);
    // Not `--lib`: a macro's library would be built with another profile than for what uses it.
    let targets = ["--bins", "--examples", "--tests", "--benches"];
    linted(step.arguments(&WORKSPACE).arguments(&targets))
}

/// Has cargo compile the workspace's own crates with clippy, which is rustc with more lints.
fn linted(step: Step) -> Step {
    let step = step
        .variable("RUSTC_WORKSPACE_WRAPPER", clippy_driver())
        // The separator that `cargo clippy` uses.
        .variable("CLIPPY_ARGS", "-Dwarnings__CLIPPY_HACKERY__")
        // A snapshot that differs is a failure, never a new file.
        .variable("INSTA_UPDATE", "no");
    // What is built once gains nothing from being built again in parts.
    if std::env::var_os("CI").is_some() { step.variable("CARGO_INCREMENTAL", "0") } else { step }
}

/// The compiler beside this cargo: on the path there may be a proxy, which takes its time.
fn clippy_driver() -> String {
    let name = format!("clippy-driver{}", std::env::consts::EXE_SUFFIX);
    let cargo = std::env::var_os("CARGO").map(PathBuf::from);
    let beside = cargo.map(|cargo| cargo.with_file_name(&name)).filter(|path| path.is_file());
    beside.map_or(name, |path| path.to_string_lossy().into_owned())
}

fn doc_tests() -> Step {
    let step = Step::cargo("the examples in the documentation pass", &["test", "--doc"]);
    linted(step.arguments(&WORKSPACE))
}

fn documentation_and_features() -> anyhow::Result<Vec<Step>> {
    let documentation = Step::cargo("the documentation builds without warnings", &["doc"])
        .arguments(&WORKSPACE)
        .arguments(&["--no-deps", "--quiet"])
        .variable("RUSTDOCFLAGS", "-D warnings");
    let features = features::steps(&dependencies::metadata()?)?;
    Ok([documentation].into_iter().chain(features).collect())
}

/// Builds the stand-in for SQL Server in a process of its own, which can be given less precedence.
fn stand_in() -> Step {
    let arguments =
        ["run", "--quiet", "--package", "callgate-test-support", "--bin", "build-tools"];
    Step::cargo("SQL Server's stand-in builds", &arguments)
}

/// Gets what tests start and the machine does not have, while the workspace is compiled.
fn download(tmp: &Path) {
    let tests = root().join("crates/callgate-cli/tests");
    thread::scope(|scope| {
        let packages = ["clients", "servers"].map(|directory| {
            let source = tests.join(directory);
            scope.spawn(move || npm(tmp, &source, &[]))
        });
        spelling::hunspell(tmp);
        for (package, program) in [("aria2", "aria2c"), ("nginx", "nginx"), ("php-cli", "php")] {
            debian(tmp, package, program);
        }
        // They are started once, so that what they start from is made.
        drop(Servers::start(tmp));
        for installed in packages {
            // With its own message, which the scope would not tell.
            installed.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
}

/// The database servers of all test processes.
struct Servers {
    postgres: DatabaseServer,
    mariadb: DatabaseServer,
}

impl Servers {
    fn start(tmp: &Path) -> Self {
        Self { postgres: Engine::Postgres.start(tmp), mariadb: Engine::MariaDb.start(tmp) }
    }

    /// The step with the addresses in its environment.
    fn told(&self, step: Step) -> Step {
        step.variable(Engine::Postgres.env_var(), self.postgres.address().to_string())
            .variable(Engine::MariaDb.env_var(), self.mariadb.address().to_string())
            .variable(WORKSPACE_BUILT, "1")
    }
}

/// `cargo nextest` and the test programs that it runs.
struct Nextest {
    cargo_metadata: PathBuf,
    binaries_metadata: PathBuf,
}

impl Nextest {
    /// Lists the test programs. Returns `None` where nextest is not installed.
    ///
    /// Runs need no cargo then, which would wait for builds beside them.
    fn new(target: &Path) -> Option<anyhow::Result<Self>> {
        let version = cargo().args(["nextest", "--version"]).output();
        version.is_ok_and(|output| output.status.success()).then(|| {
            let (cargo_metadata, binaries_metadata) =
                (target.join("nextest-cargo.json"), target.join("nextest-binaries.json"));
            let all = ["metadata", "--format-version", "1", "--all-features"];
            fs::write(&cargo_metadata, output(cargo().args(all))?)?;
            let list = Step::cargo("", &["nextest", "list", "--list-type", "binaries-only"]);
            let list = linted(list.arguments(&WORKSPACE).arguments(&["--message-format", "json"]));
            fs::write(&binaries_metadata, output(&mut list.command())?)?;
            Ok(Self { cargo_metadata, binaries_metadata })
        })
    }

    fn step(&self, what: &str, filter: &str) -> Step {
        let arguments =
            ["nextest", "run", "--no-fail-fast", "--color", "never", "--cargo-metadata"];
        let step = Step::cargo(what, &arguments)
            .arguments(&[&self.cargo_metadata.to_string_lossy(), "--binaries-metadata"])
            .arguments(&[&self.binaries_metadata.to_string_lossy(), "--filterset", filter])
            .arguments(&["--hide-progress-bar"]);
        linted(step)
    }
}

/// The packages with files that differ from the last commit.
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

/// Runs a command. Returns its output.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{command:?}: {errors}");
    Ok(String::from_utf8(output.stdout)?)
}

pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Cargo's directory, with `debug` and this program in it.
fn target() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    program.ancestors().nth(2).map_or_else(|| root().join("target"), Path::to_owned)
}
