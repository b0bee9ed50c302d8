//! The protocol's official conformance suite, against `examples/everything` and against the demo.
//!
//! The suite ignores warnings and unscored scenarios. These tests require that each check succeeds, except for those
//! listed below.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::clients::everything::Everything;
use super::clients::node;
use super::support::TestDirectory;

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// Log lines that the suite counts as checks.
const LOG_LINES: [&str; 4] =
    ["outgoing-request", "incoming-response", "incoming-sse-event", "stream-closed"];
/// Check that the suite skips for every server.
const SKIPPED: &str = "tasks-status-notifications";
/// Checks that call tools of the suite's own server.
const NEEDS_FIXTURES: [&str; 8] = [
    "sep-2575-server-rejects-undeclared-capability",
    "sep-2575-missing-capability-http-400",
    "sep-2575-http-server-no-independent-requests-on-stream",
    "sep-2575-server-no-log-without-loglevel",
    "sep-2575-server-sends-prompts-list-changed-on-subscription",
    "sep-2575-server-sends-tools-list-changed-on-subscription",
    "sep-2243-server-decode-base64",
    "sep-2243-server-validate-param-match",
];

/// Check that compares the order of tools. Without a token, the demo only lists one tool.
const NEEDS_TWO_TOOLS: &str = "tools-list-deterministic-order";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Check {
    id: String,
    status: String,
    #[serde(default)]
    description: String,
    error_message: Option<String>,
}

impl Check {
    fn is_success(&self) -> bool {
        self.status == "SUCCESS"
    }

    fn is_log_line(&self) -> bool {
        self.status == "INFO" && LOG_LINES.contains(&self.id.as_str())
    }
}

/// Checks by scenario.
type Checks = BTreeMap<String, Vec<Check>>;

/// Runs the suite. Returns the checks.
fn run_suite(url: &str, arguments: &[&str]) -> Checks {
    let out = tempfile::tempdir().unwrap();
    let mut command = node::conformance();
    command.args(["server", "--url", url, "--output-dir"]).arg(out.path()).args(arguments);
    let output = command.current_dir(out.path()).output().unwrap();
    let checks = read_checks(out.path());
    assert!(
        !checks.is_empty(),
        "the suite reported no checks: {}",
        String::from_utf8_lossy(&output.stdout)
    );
    checks
}

fn read_checks(out: &Path) -> Checks {
    let mut checks = Checks::new();
    for entry in std::fs::read_dir(out).unwrap() {
        let entry = entry.unwrap();
        let Ok(text) = std::fs::read_to_string(entry.path().join("checks.json")) else { continue };
        let name = entry.file_name().into_string().unwrap();
        checks.insert(name, serde_json::from_str(&text).unwrap());
    }
    checks
}

/// Returns the checks that did not succeed, except for `ignored`.
fn failures(checks: &Checks, ignored: &[&str]) -> Vec<String> {
    let mut failures = Vec::new();
    for (scenario, checks) in checks {
        let failed = checks.iter().filter(|check| !check.is_success() && !check.is_log_line());
        for check in failed.filter(|check| !ignored.contains(&check.id.as_str())) {
            let Check { id, status, description, error_message } = check;
            let message = error_message.as_deref().unwrap_or(description);
            failures.push(format!("{scenario}: {status} {id}: {message}"));
        }
    }
    failures
}

fn success_count(checks: &Checks) -> usize {
    checks.values().flatten().filter(|check| check.is_success()).count()
}

#[test]
fn the_everything_example_passes_every_check_of_2025_11_25() {
    let everything = Everything::example(0);
    let checks = run_suite(&everything.url, &["--requirements", LEGACY]);
    assert_eq!(failures(&checks, &[]), Vec::<String>::new());
    assert_eq!(checks.len(), 33, "30 required scenarios, and the unscored ones");
    assert!(success_count(&checks) >= 83, "only {} checks", success_count(&checks));
}

#[test]
fn the_everything_example_passes_every_check_of_2026_07_28() {
    let everything = Everything::example(0);
    let checks = run_suite(&everything.url, &["--requirements", MODERN]);
    assert_eq!(failures(&checks, &[SKIPPED]), Vec::<String>::new());
    assert_eq!(checks.len(), 50, "37 required scenarios, and the unscored ones");
    assert!(success_count(&checks) >= 197, "only {} checks", success_count(&checks));
}

#[test]
fn the_demo_passes_the_checks_that_need_no_fixtures() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    let url = format!("http://{}/mcp", server.address);
    let scenarios = [
        ("server-initialize", LEGACY),
        ("ping", LEGACY),
        ("logging-set-level", LEGACY),
        ("server-session-lifecycle", LEGACY),
        ("tools-list", LEGACY),
        ("tools-list", MODERN),
        ("dns-rebinding-protection", LEGACY),
        ("dns-rebinding-protection", MODERN),
        ("server-sse-multiple-streams", LEGACY),
        ("server-sse-multiple-streams", MODERN),
        ("caching", MODERN),
        ("sep-2164-resource-not-found", MODERN),
        ("http-header-validation", MODERN),
        ("server-stateless", MODERN),
    ];
    let ignored = [&NEEDS_FIXTURES[..], &[NEEDS_TWO_TOOLS]].concat();
    for (scenario, revision) in scenarios {
        let arguments = ["--scenario", scenario, "--spec-version", revision, "--force"];
        let checks = run_suite(&url, &arguments);
        assert_eq!(failures(&checks, &ignored), Vec::<String>::new(), "{revision}");
        assert!(success_count(&checks) > 0, "{scenario}");
    }
}
