//! Start-up time of a server with a large catalog.

use std::fs::File;
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::faults::cluster::database::RegistryDatabase;
use crate::faults::cluster::metrics::Metrics;
use crate::faults::cluster::registry::{Program, TestRegistry};
use crate::faults::cluster::upstream::UpstreamMode;
use crate::faults::lock_scenarios;
use crate::http_client::get;
use crate::real::servers::free_address;
use crate::support::TIMEOUT;

/// Durations of a start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartUp {
    /// Time from the start of the process until `/readyz` is 200.
    pub(crate) total: Duration,
    /// Time for reading the rows of the catalog, part of `total`.
    pub(crate) read: Duration,
    /// Number of tools.
    pub(crate) tools: u64,
}

/// Adds methods with three parameters, a description and a required section permission.
pub(crate) fn add_methods(registry: &TestRegistry, database: &RegistryDatabase, count: usize) {
    registry.run(&["section", "add", "bulk"]);
    let numbers = format!(
        "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count})"
    );
    database.sql(
        registry,
        &format!(
            "INSERT INTO rpc_methods (rpc_method, params, description, sections, safety, upstream)
                 {numbers} SELECT CONCAT('bulk.item', n, '.find'),
                 '[\"string $query\", \"int $limit = 50\", \"bool $archived = false\"]',
                 CONCAT('Finds the items of collection ', n, ' that match a query, newest first.'),
                 'bulk', 'read_only', 'default' FROM numbers;
             INSERT INTO section_actions (id_section, plugin, method, mask)
                 {numbers} SELECT (SELECT id FROM sections WHERE ident = 'bulk'), 'default',
                 CONCAT('bulk.item', n, '.find'), '2' FROM numbers;"
        ),
    );
}

/// Kills a process when it is dropped.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server on a new registry, and stops it after it has stored the tool names for later starts.
pub(crate) fn first_start(registry: &TestRegistry, database: &RegistryDatabase) -> StartUp {
    measure_start(registry, database, Metrics::wait_until_idle)
}

/// Starts a server and waits until it is ready.
pub(crate) fn start(registry: &TestRegistry, database: &RegistryDatabase) -> StartUp {
    measure_start(registry, database, |_| {})
}

fn measure_start(
    registry: &TestRegistry,
    database: &RegistryDatabase,
    on_ready: impl Fn(SocketAddr),
) -> StartUp {
    let (address, log) = (free_address(), registry.dir.path("start.log"));
    let mut command = registry.command(&["serve", "--json", "--listen", &address.to_string()]);
    command.env("CALLGATE_DATABASE", database.url()).env("CALLGATE_LOG_FORMAT", "json");
    command.env("CALLGATE_METRICS", "true");
    command.stdout(Stdio::null()).stderr(File::create(&log).unwrap());
    let begin = Instant::now();
    let server = KillOnDrop(command.spawn().unwrap());
    let is_ready = || get(address, "/readyz").is_ok_and(|response| response.status == 200);
    while !is_ready() && begin.elapsed() < TIMEOUT {
        std::thread::sleep(Duration::from_millis(1));
    }
    let total = begin.elapsed();
    on_ready(address);
    drop(server);
    let log = std::fs::read_to_string(log).unwrap();
    let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let loaded = lines.find(|line| line["message"] == "catalog loaded");
    let loaded = loaded.unwrap_or_else(|| panic!("gateway does not start: {log}"));
    let read = duration(loaded["read"].as_str().unwrap());
    StartUp { total, read, tools: loaded["tools"].as_u64().unwrap() }
}

/// Parses a duration of the log, such as `1.25s` or `812.3ms`.
fn duration(text: &str) -> Duration {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number: f64 = text.trim_end_matches(unit).parse().unwrap();
    let seconds = match unit {
        "s" => 1.0,
        "ms" => 1e-3,
        "µs" => 1e-6,
        _ => panic!("{text}"),
    };
    Duration::from_secs_f64(number * seconds)
}

#[test]
fn durations_of_the_log_are_parsed() {
    let timings = ["1.25s", "812.5ms", "3µs"].map(duration);
    assert_eq!(timings.map(|time| time.as_micros()), [1_250_000, 812_500, 3]);
}

#[test]
fn a_start_reports_its_tools_and_the_time_for_reading() {
    let _lock = lock_scenarios();
    let registry =
        TestRegistry::new(Program::Tested, RegistryDatabase::Sqlite.url(), UpstreamMode::Reliable);
    add_methods(&registry, &RegistryDatabase::Sqlite, 300);
    for start in [
        first_start(&registry, &RegistryDatabase::Sqlite),
        start(&registry, &RegistryDatabase::Sqlite),
    ] {
        assert_eq!(start.tools, 305, "{start:?}");
        assert!(start.read < start.total, "{start:?}");
    }
}
