//! Steps, how long each took, and what passed and failed.

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

use crate::say;

/// How many of the slowest tests are listed.
const SLOWEST: usize = 10;

/// A command that must succeed.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) what: String,
    program: OsString,
    arguments: Vec<String>,
    variables: BTreeMap<String, String>,
    in_background: bool,
}

impl Step {
    /// A command of cargo.
    pub(crate) fn cargo(what: impl Into<String>, arguments: &[&str]) -> Self {
        Self::program(what, std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), arguments)
    }

    /// Any other command.
    pub(crate) fn program(
        what: impl Into<String>,
        program: impl Into<OsString>,
        arguments: &[&str],
    ) -> Self {
        Self {
            what: what.into(),
            program: program.into(),
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

    /// Gives other processes precedence, and prints the output when the step has ended.
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

    /// The command, as somebody would type it.
    fn shown(&self) -> String {
        let name = std::path::Path::new(&self.program).file_name().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        let variables = self.variables.iter().map(|(name, value)| format!("{name}='{value}'"));
        let words: Vec<String> =
            variables.chain([name]).chain(self.arguments.iter().cloned()).collect();
        words.join(" ")
    }

    /// Runs the command.
    pub(crate) fn run(&self) -> Done {
        let (started, mut done) = (Instant::now(), Done::new(&self.what));
        let heading = format!("\n== {}: {}", self.what, self.shown());
        let mut printed = vec![heading.clone()];
        if !self.in_background {
            say(&heading);
        }
        let runner = Runner::of(&self.arguments);
        let status = self.execute(|line| {
            done.tests.read(runner, &line);
            if self.in_background {
                printed.push(line);
            } else {
                say(&line);
            }
        });
        done.problem = match status {
            Ok(status) if status.success() => None,
            Ok(status) => Some(status.to_string()),
            Err(error) => Some(format!("{error:#}")),
        };
        done.time = started.elapsed();
        if self.in_background {
            say(&printed.join("\n"));
        }
        done
    }

    /// Runs the command and hands over each line that it prints.
    fn execute(&self, mut line: impl FnMut(String)) -> anyhow::Result<ExitStatus> {
        let mut command = self.command();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        let output = child.stdout.take().context("its standard output is not piped")?;
        let errors = child.stderr.take().context("its standard error is not piped")?;
        let (sender, lines) = mpsc::channel();
        thread::scope(|scope| {
            let other = sender.clone();
            scope.spawn(move || send_lines(output, &sender));
            scope.spawn(move || send_lines(errors, &other));
            lines.iter().for_each(&mut line);
        });
        child.wait().context("cannot wait for it")
    }
}

fn send_lines(output: impl Read, lines: &mpsc::Sender<String>) {
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        let _ = lines.send(String::from_utf8_lossy(&line).trim_end().to_owned());
    }
}

/// How a step ended.
#[derive(Debug)]
pub(crate) struct Done {
    what: String,
    time: Duration,
    tests: Tests,
    problem: Option<String>,
}

impl Done {
    fn new(what: &str) -> Self {
        let tests = Tests::default();
        Self { what: what.to_owned(), time: Duration::ZERO, tests, problem: None }
    }
}

/// What test runners printed of their tests.
#[derive(Debug, Default)]
struct Tests {
    passed: u64,
    failed: u64,
    /// The tests with their times, where the runner tells them.
    timed: Vec<(Duration, String)>,
    /// The lines of tests that failed once and passed when they were run again.
    flaky: Vec<String>,
    /// Whether nextest has printed its summary, after which it repeats what failed.
    is_summed_up: bool,
}

/// What runs tests, and prints how they went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Runner {
    Cargo,
    Nextest,
}

impl Runner {
    /// The runner of a command of cargo.
    fn of(arguments: &[String]) -> Self {
        let is_nextest = arguments.first().is_some_and(|first| first == "nextest");
        if is_nextest { Self::Nextest } else { Self::Cargo }
    }
}

impl Tests {
    /// Reads a line of a runner.
    fn read(&mut self, runner: Runner, line: &str) {
        let line = line.trim();
        match runner {
            Runner::Cargo => {
                if let Some(result) = line.strip_prefix("test result:") {
                    self.passed += count(result, "passed");
                    self.failed += count(result, "failed");
                }
            }
            // It also prints what failed tests printed, which is in cargo's form.
            Runner::Nextest if self.is_summed_up => {
                if line.starts_with("FLAKY ") {
                    self.flaky.push(line.to_owned());
                }
            }
            Runner::Nextest => {
                if let Some((_, result)) = line.split_once(" run: ")
                    && line.starts_with("Summary [")
                {
                    self.is_summed_up = true;
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

/// Reads `PASS [   0.123s] (1/2) crate::binary name`.
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

/// The number before a word, as in `12 passed; 0 failed` or `12 passed (1 slow), 3 skipped`.
fn count(result: &str, word: &str) -> u64 {
    let part = result.split([';', '.', ',', '(', ')']).find_map(|part| {
        let number = part.trim().strip_suffix(word)?;
        number.trim().parse().ok()
    });
    part.unwrap_or(0)
}

/// The message of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}

/// A run of several steps.
#[derive(Debug, Default)]
pub(crate) struct Run {
    done: Vec<Done>,
}

impl Run {
    /// Runs a step. Returns whether it succeeded.
    pub(crate) fn step(&mut self, step: &Step) -> bool {
        self.add(step.run())
    }

    /// Runs a check of this program, which returns what is wrong, a line each.
    pub(crate) fn check(
        &mut self,
        what: &str,
        check: impl FnOnce() -> anyhow::Result<Vec<String>>,
    ) {
        let (started, mut done) = (Instant::now(), Done::new(what));
        say(&format!("\n== {what}"));
        let problems = panic::catch_unwind(AssertUnwindSafe(check))
            .map_err(|panic| anyhow::anyhow!("{}", panic_message(&*panic)))
            .flatten()
            .unwrap_or_else(|error| vec![format!("{error:#}")]);
        for problem in &problems {
            say(problem);
        }
        done.problem = (!problems.is_empty()).then(|| format!("{} problems", problems.len()));
        done.time = started.elapsed();
        self.add(done);
    }

    /// Adds a step that has ended. Returns whether it succeeded.
    pub(crate) fn add(&mut self, done: Done) -> bool {
        let succeeded = done.problem.is_none();
        if let Some(problem) = &done.problem {
            say(&format!("FAILED: {}: {problem}", done.what));
        }
        self.done.push(done);
        succeeded
    }

    /// Prints where the time went and what passed and failed.
    pub(crate) fn finish(mut self) -> ExitCode {
        say("\n== where the time went");
        for done in &self.done {
            let failed = done.problem.as_ref().map_or("", |_| "  FAILED");
            say(&format!("{:8.1} s  {}{failed}", done.time.as_secs_f64(), done.what));
        }
        let mut timed: Vec<_> =
            self.done.iter_mut().flat_map(|done| std::mem::take(&mut done.tests.timed)).collect();
        timed.sort_by(|one, other| other.cmp(one));
        if !timed.is_empty() {
            say("\n== the slowest tests");
        }
        for (time, name) in timed.iter().take(SLOWEST) {
            say(&format!("{:8.1} s  {name}", time.as_secs_f64()));
        }
        let flaky: Vec<&String> = self.done.iter().flat_map(|done| &done.tests.flaky).collect();
        if !flaky.is_empty() {
            say("\n== tests that failed once and passed when run again: each is a bug");
        }
        for line in flaky {
            say(line);
        }
        let (mut passed, mut failed) = (0, 0);
        for done in &self.done {
            passed += done.tests.passed + u64::from(done.problem.is_none());
            // A failed test also fails its step: it counts once.
            failed += match done.problem {
                Some(_) => done.tests.failed.max(1),
                None => done.tests.failed,
            };
        }
        say(&format!("\n{passed} passed, {failed} failed"));
        if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_lines_of_runners_are_read() {
        let of_cargo = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured";
        let mut tests = Tests::default();
        tests.read(Runner::Cargo, of_cargo);
        assert_eq!((tests.passed, tests.failed), (12, 3));
        let mut tests = Tests::default();
        tests.read(Runner::Nextest, of_cargo);
        tests.read(
            Runner::Nextest,
            "  Summary [ 2.1s] 9 tests run: 6 passed (1 slow), 2 failed, 1 timed out, 4 skipped",
        );
        assert_eq!((tests.passed, tests.failed), (6, 3));
    }

    #[test]
    fn times_of_tests_are_read() {
        let mut tests = Tests::default();
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
