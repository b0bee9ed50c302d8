//! The machine and the assignment of its cores.

use std::path::Path;
use std::process::Command;

use crate::progress;

/// Description of the machine for the report.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) processor: String,
    pub(crate) kernel: String,
    /// `true` if processes can be assigned to cores.
    can_pin: bool,
}

/// Number of threads of the servers, and the cores on which servers with this number of threads run.
#[derive(Debug, Clone)]
pub(crate) struct Placement {
    pub(crate) threads: usize,
    /// List of cores for `taskset`, or `None` if processes cannot be assigned.
    cores: Option<String>,
    /// `true` if the load generator has a separate core.
    pub(crate) is_separate: bool,
}

impl Machine {
    /// Detects the machine.
    pub(crate) fn detect() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let can_pin = cores > 1 && pin_self(&range(cores));
        if !can_pin {
            progress(
                "servers use all cores, because `taskset` is missing or there is only one core",
            );
        }
        let kernel = first_line("/proc/sys/kernel/osrelease");
        Self { cores, processor: processor(), kernel, can_pin }
    }

    /// Assigns the first cores to the servers, and the next core to this process. If there is no next core, this
    /// process uses all cores.
    pub(crate) fn place(&self, threads: usize) -> Placement {
        let is_separate = self.can_pin
            && pin_self(&if self.cores > threads {
                threads.to_string()
            } else {
                range(self.cores)
            })
            && self.cores > threads;
        let cores = self.can_pin.then(|| range(threads.min(self.cores)));
        Placement { threads, cores, is_separate }
    }
}

impl Placement {
    /// Returns a command that runs `program` on the cores of the servers. Runtimes create a thread for each of these
    /// cores.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let Some(cores) = &self.cores else { return Command::new(program) };
        let mut command = Command::new("taskset");
        command.args(["-c", cores]).arg(program);
        command
    }
}

fn range(cores: usize) -> String {
    format!("0-{}", cores.saturating_sub(1))
}

fn pin_self(cores: &str) -> bool {
    let pid = std::process::id().to_string();
    let output = Command::new("taskset").args(["-a", "-c", "-p", cores, &pid]).output();
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
