//! The machine and the assignment of its cores.

use std::process::Command;

use crate::progress;

/// Core of the servers.
const SERVER_CORE: &str = "0";
/// Core of the load generator.
const OWN_CORE: &str = "1";

/// Description of the machine for the report.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) processor: String,
    pub(crate) kernel: String,
    /// Whether servers and load generator have separate cores.
    pub(crate) pinned: bool,
}

impl Machine {
    /// Pins this process to its core and detects the machine.
    pub(crate) fn prepare() -> Self {
        // Read before pinning, which reduces the number to one.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let pinned = cores > 1 && pin_self();
        if !pinned {
            progress(
                "failed to pin processes to cores (no taskset, or one core only): results will be noisy",
            );
        }
        Self {
            cores,
            processor: processor(),
            kernel: first_line("/proc/sys/kernel/osrelease"),
            pinned,
        }
    }

    /// Returns a command that runs `program` on the servers' core.
    pub(crate) fn server_command(&self, program: &std::path::Path) -> Command {
        if !self.pinned {
            return Command::new(program);
        }
        let mut command = Command::new("taskset");
        command.args(["-c", SERVER_CORE]).arg(program);
        command
    }
}

fn pin_self() -> bool {
    let own = std::process::id().to_string();
    let output = Command::new("taskset").args(["-c", "-p", OWN_CORE, &own]).output();
    output.is_ok_and(|output| output.status.success())
}

fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or("unknown", |(_, name)| name).to_owned()
}

fn first_line(path: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_owned()
}
