//! The machine: what it is, and which cores are for whom.

use std::process::Command;

use crate::progress;

/// The core of the servers.
const SERVER_CORE: &str = "0";
/// The core of the load generator.
const OWN_CORE: &str = "1";

/// What the report says of the machine.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) processor: String,
    pub(crate) kernel: String,
    /// Whether servers and load generator have a core each.
    pub(crate) pinned: bool,
}

impl Machine {
    /// Puts this process onto its core, and looks around.
    pub(crate) fn prepare() -> Self {
        // Before it is pinned, since then there is one core left.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let pinned = cores > 1 && pin_self();
        if !pinned {
            progress("cannot pin to cores (no taskset, or one core only): figures will be noisy");
        }
        Self {
            cores,
            processor: processor(),
            kernel: first_line("/proc/sys/kernel/osrelease"),
            pinned,
        }
    }

    /// A command that runs `program` on the servers' core.
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
