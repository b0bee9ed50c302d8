//! Runs steps, and reports their results and durations.

use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read};
use std::panic::{self, AssertUnwindSafe};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::print_line;

/// Number of slowest tests in the report.
const SLOWEST: usize = 10;

/// A command that must succeed.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) name: String,
    program: OsString,
    arguments: Vec<String>,
    variables: BTreeMap<String, String>,
    in_background: bool,
}

impl Step {
    /// Returns a step that runs cargo.
    pub(crate) fn cargo(name: impl Into<String>, arguments: &[&str]) -> Self {
        Self {
            name: name.into(),
            program: std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            variables: BTreeMap::new(),
            in_background: false,
        }
    }

    /// Adds arguments.
    pub(crate) fn arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|&argument| argument.to_owned()));
        self
    }

    /// Sets an environment variable.
    pub(crate) fn variable(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.insert(name.to_owned(), value.into());
        self
    }

    /// Runs the step with low priority, and prints its output when it has finished.
    pub(crate) fn in_background(mut self) -> Self {
        self.in_background = true;
        self
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = if self.in_background {
            let mut nice = Command::new("nice");
            nice.arg("-n").arg("19").arg(&self.program);
            nice
        } else {
            Command::new(&self.program)
        };
        command.args(&self.arguments).envs(&self.variables);
        command
    }

    /// Returns the command as a line for a shell.
    fn command_line(&self) -> String {
        let name = std::path::Path::new(&self.program).file_name().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        let variables = self.variables.iter().map(|(name, value)| format!("{name}='{value}'"));
        let parts: Vec<String> =
            variables.chain([name]).chain(self.arguments.iter().cloned()).collect();
        parts.join(" ")
    }

    pub(crate) fn run(&self) -> StepResult {
        let (started, mut result) = (Instant::now(), StepResult::new(&self.name));
        let heading = format!("\n== {}: {}", self.name, self.command_line());
        let mut output = vec![heading.clone()];
        if !self.in_background {
            print_line(&heading);
        }
        let runner = Runner::of(&self.arguments);
        let status = self.execute(|line| {
            result.tests.read(runner, &line);
            if self.in_background {
                output.push(line);
            } else {
                print_line(&line);
            }
        });
        result.failure = match status {
            Ok(status) if status.success() => None,
            Ok(status) => Some(status.to_string()),
            Err(error) => Some(format!("{error:#}")),
        };
        result.time = started.elapsed();
        if self.in_background {
            print_line(&output.join("\n"));
        }
        result
    }

    /// Runs the command and calls `line` with each line of its output.
    fn execute(&self, mut line: impl FnMut(String)) -> anyhow::Result<ExitStatus> {
        let mut command = self.command();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("failed to start {}", self.program.display()))?;
        let stdout = child.stdout.take().context("stdout is not piped")?;
        let stderr = child.stderr.take().context("stderr is not piped")?;
        let (sender, lines) = mpsc::channel();
        thread::scope(|scope| {
            let stderr_sender = sender.clone();
            scope.spawn(move || send_lines(stdout, &sender));
            scope.spawn(move || send_lines(stderr, &stderr_sender));
            lines.iter().for_each(&mut line);
        });
        child.wait().context("failed to wait for the process")
    }
}

fn send_lines(output: impl Read, lines: &mpsc::Sender<String>) {
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        let _ = lines.send(String::from_utf8_lossy(&line).trim_end().to_owned());
    }
}

/// Result of a step.
#[derive(Debug)]
pub(crate) struct StepResult {
    name: String,
    time: Duration,
    tests: TestResults,
    failure: Option<String>,
}

impl StepResult {
    fn new(name: &str) -> Self {
        let tests = TestResults::default();
        Self { name: name.to_owned(), time: Duration::ZERO, tests, failure: None }
    }
}

/// Results of tests, from the output of a test runner.
#[derive(Debug, Default)]
struct TestResults {
    passed: u64,
    failed: u64,
    /// Durations and names of tests, if the runner reports them.
    timed: Vec<(Duration, String)>,
    /// Lines about tests that failed once and passed in the second attempt.
    flaky: Vec<String>,
    /// Whether the summary of nextest has been read. After the summary, nextest lists the failures
    /// a second time.
    has_summary: bool,
}

/// Test runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Runner {
    Cargo,
    Nextest,
}

impl Runner {
    /// Returns the runner of a cargo command.
    fn of(arguments: &[String]) -> Self {
        let is_nextest = arguments.first().is_some_and(|first| first == "nextest");
        if is_nextest { Self::Nextest } else { Self::Cargo }
    }
}

impl TestResults {
    /// Parses a line of a runner's output.
    fn read(&mut self, runner: Runner, line: &str) {
        let line = line.trim();
        match runner {
            Runner::Cargo => {
                if let Some(result) = line.strip_prefix("test result:") {
                    self.passed += count(result, "passed");
                    self.failed += count(result, "failed");
                }
            }
            // Nextest also prints the output of failed tests, which may look like cargo's output.
            Runner::Nextest if self.has_summary => {
                if line.starts_with("FLAKY ") {
                    self.flaky.push(line.to_owned());
                }
            }
            Runner::Nextest => {
                if let Some((_, result)) = line.split_once(" run: ")
                    && line.starts_with("Summary [")
                {
                    self.has_summary = true;
                    self.passed += count(result, "passed");
                    let failures = ["failed", "timed out", "exec failed"];
                    self.failed += failures.map(|word| count(result, word)).iter().sum::<u64>();
                } else {
                    self.timed.extend(timed(line));
                }
            }
        }
    }
}

/// Parses `PASS [   0.123s] (1/2) crate::binary name`.
fn timed(line: &str) -> Option<(Duration, String)> {
    let (status, rest) = line.split_once(" [")?;
    if !matches!(status, "PASS" | "FAIL" | "LEAK" | "TIMEOUT") {
        return None;
    }
    let (time, name) = rest.split_once("s]")?;
    let name = name.trim_start();
    let name = name.strip_prefix('(').and_then(|it| it.split_once(") ")).map_or(name, |it| it.1);
    Some((Duration::try_from_secs_f64(time.trim().parse().ok()?).ok()?, name.to_owned()))
}

/// Returns the number before a word, as in `12 passed; 0 failed` or `12 passed (1 slow), 3 skipped`.
fn count(result: &str, word: &str) -> u64 {
    let part = result.split([';', '.', ',', '(', ')']).find_map(|part| {
        let number = part.trim().strip_suffix(word)?;
        number.trim().parse().ok()
    });
    part.unwrap_or(0)
}

/// Returns the message of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panicked").to_owned()
}

/// Results of all steps.
#[derive(Debug, Default)]
pub(crate) struct Run {
    results: Vec<StepResult>,
}

impl Run {
    /// Runs a step. Returns `true` if it succeeded.
    pub(crate) fn step(&mut self, step: &Step) -> bool {
        self.add(step.run())
    }

    /// Runs a function that returns problems, one per line.
    pub(crate) fn check(
        &mut self,
        name: &str,
        check: impl FnOnce() -> anyhow::Result<Vec<String>>,
    ) {
        let (started, mut result) = (Instant::now(), StepResult::new(name));
        print_line(&format!("\n== {name}"));
        let problems = panic::catch_unwind(AssertUnwindSafe(check))
            .map_err(|panic| anyhow::anyhow!("{}", panic_message(&*panic)))
            .flatten()
            .unwrap_or_else(|error| vec![format!("{error:#}")]);
        for problem in &problems {
            print_line(problem);
        }
        result.failure = (!problems.is_empty()).then(|| format!("{} problems", problems.len()));
        result.time = started.elapsed();
        self.add(result);
    }

    /// Adds the result of a step. Returns `true` if it succeeded.
    pub(crate) fn add(&mut self, result: StepResult) -> bool {
        let succeeded = result.failure.is_none();
        if let Some(failure) = &result.failure {
            print_line(&format!("FAILED: {}: {failure}", result.name));
        }
        self.results.push(result);
        succeeded
    }

    /// Prints the durations and the number of passed and failed steps and tests.
    pub(crate) fn finish(mut self) -> ExitCode {
        print_line("\n== durations");
        for result in &self.results {
            let failed = result.failure.as_ref().map_or("", |_| "  FAILED");
            print_line(&format!("{:8.1} s  {}{failed}", result.time.as_secs_f64(), result.name));
        }
        let mut timed: Vec<_> =
            self.results.iter_mut().flat_map(|it| std::mem::take(&mut it.tests.timed)).collect();
        timed.sort_by(|a, b| b.cmp(a));
        if !timed.is_empty() {
            print_line("\n== slowest tests");
        }
        for (time, name) in timed.iter().take(SLOWEST) {
            print_line(&format!("{:8.1} s  {name}", time.as_secs_f64()));
        }
        let flaky: Vec<&String> = self.results.iter().flat_map(|it| &it.tests.flaky).collect();
        if !flaky.is_empty() {
            print_line("\n== flaky tests: each is a bug");
        }
        for line in flaky {
            print_line(line);
        }
        let (mut passed, mut failed) = (0, 0);
        for result in &self.results {
            passed += result.tests.passed + u64::from(result.failure.is_none());
            // A failed test also makes its step fail. Both together count as one failure.
            failed += match result.failure {
                Some(_) => result.tests.failed.max(1),
                None => result.tests.failed,
            };
        }
        print_line(&format!("\n{passed} passed, {failed} failed"));
        if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_of_runners_are_parsed() {
        let cargo_output = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured";
        let mut tests = TestResults::default();
        tests.read(Runner::Cargo, cargo_output);
        assert_eq!((tests.passed, tests.failed), (12, 3));
        let mut tests = TestResults::default();
        tests.read(Runner::Nextest, cargo_output);
        tests.read(
            Runner::Nextest,
            "  Summary [ 2.1s] 9 tests run: 6 passed (1 slow), 2 failed, 1 timed out, 4 skipped",
        );
        assert_eq!((tests.passed, tests.failed), (6, 3));
    }

    #[test]
    fn durations_of_tests_are_parsed() {
        let mut tests = TestResults::default();
        for line in [
            "        PASS [   1.250s] ( 1/12) callgate::it mcp::a_call",
            "        SLOW [> 60.000s] callgate lint::a_rule",
            "     TIMEOUT [  60.250s] callgate lint::a_rule",
            "     Summary [   2.1s] 2 tests run: 1 passed, 1 timed out, 0 skipped",
            "     TIMEOUT [  60.250s] callgate lint::a_rule",
            "   FLAKY 2/2 [   0.250s] callgate lint::another",
        ] {
            tests.read(Runner::Nextest, line);
        }
        let names: Vec<&str> = tests.timed.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["callgate::it mcp::a_call", "callgate lint::a_rule"]);
        assert_eq!(tests.timed[0].0, Duration::from_millis(1250));
        assert_eq!(tests.flaky.len(), 1);
    }
}
