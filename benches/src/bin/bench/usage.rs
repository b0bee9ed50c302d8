//! CPU time and memory of processes, from `/proc`.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, bail};

/// Memory of a process, in KiB.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Memory {
    pub(crate) resident: u32,
    pub(crate) peak: u32,
}

/// CPU time of a round, or the total so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CpuUsage {
    /// Server.
    pub(crate) server: Duration,
    /// Service behind the server, on the same cores.
    pub(crate) service: Duration,
    /// Load generator, which is this process.
    pub(crate) generator: Duration,
    /// All processes, as the sum over all cores.
    all: Duration,
    /// Time stolen by the host of a virtual machine, as the average over all cores.
    pub(crate) stolen: Duration,
}

impl CpuUsage {
    /// Reads the totals so far.
    pub(crate) fn now(server: u32, service: Option<u32>) -> anyhow::Result<Self> {
        let service = service.map(cpu_time).transpose()?.unwrap_or_default();
        let generator = process_time(std::process::id())?;
        let (all, stolen) = machine_time()?;
        Ok(Self { server: cpu_time(server)?, service, generator, all, stolen })
    }

    /// Returns the time of processes outside of the measurement.
    pub(crate) fn other_processes(&self) -> Duration {
        self.all.saturating_sub(self.server + self.service + self.generator)
    }

    /// Returns the difference to earlier totals.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            server: self.server.saturating_sub(before.server),
            service: self.service.saturating_sub(before.service),
            generator: self.generator.saturating_sub(before.generator),
            all: self.all.saturating_sub(before.all),
            stolen: self.stolen.saturating_sub(before.stolen),
        }
    }
}

/// Returns a process and its descendants.
pub(crate) fn process_tree(process: u32) -> Vec<u32> {
    let children = |process: &u32| -> Vec<u32> {
        let file = format!("/proc/{process}/task/{process}/children");
        let text = fs::read_to_string(file).unwrap_or_default();
        text.split_whitespace().filter_map(|id| id.parse().ok()).collect()
    };
    let mut all = vec![process];
    let mut next = 0;
    while let Some(process) = all.get(next) {
        all.append(&mut children(process));
        next += 1;
    }
    all
}

/// Returns the CPU time of a process and its descendants.
fn cpu_time(process: u32) -> anyhow::Result<Duration> {
    process_tree(process).into_iter().map(process_time).sum()
}

/// Returns the CPU time of all threads of a process.
fn process_time(process: u32) -> anyhow::Result<Duration> {
    let directory = format!("/proc/{process}/task");
    let mut total = Duration::ZERO;
    for thread in fs::read_dir(&directory).with_context(|| format!("failed to read {directory}"))? {
        // A thread may have ended.
        let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        let nanoseconds = text.split_whitespace().next().context("schedstat is empty")?;
        total += Duration::from_nanos(nanoseconds.parse()?);
    }
    Ok(total)
}

/// Returns the CPU time of all processes since the start of the machine, and the time that its host has stolen.
fn machine_time() -> anyhow::Result<(Duration, Duration)> {
    /// Unit of the times in `/proc/stat`.
    const TICK: Duration = Duration::from_millis(10);
    let text = fs::read_to_string("/proc/stat")?;
    let cores = text.lines().filter(|line| line.starts_with("cpu"));
    // Name, user, nice, system, idle, iowait, irq, softirq, steal. The first line is the sum.
    let sum = cores.clone().next().unwrap_or_default().split_whitespace().skip(1);
    let ticks: Vec<u32> = sum.filter_map(|ticks| ticks.parse().ok()).collect();
    let [user, nice, system, _, _, _, _, stolen, ..] = *ticks else {
        bail!("/proc/stat is too short")
    };
    let cores = u32::try_from(cores.count().saturating_sub(1))?;
    Ok((TICK * (user + nice + system), TICK * stolen / cores.max(1)))
}

/// Returns the current and the peak memory of a process and its descendants.
pub(crate) fn memory(process: u32) -> anyhow::Result<Memory> {
    process_tree(process).into_iter().try_fold(Memory::default(), |sum, process| {
        let memory = process_memory(process)?;
        Ok(Memory { resident: sum.resident + memory.resident, peak: sum.peak + memory.peak })
    })
}

fn process_memory(process: u32) -> anyhow::Result<Memory> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let field = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let kibibytes = value.trim().trim_end_matches(" kB");
        kibibytes.parse().with_context(|| format!("no {name} in /proc/{process}/status"))
    };
    Ok(Memory { resident: field("VmRSS:")?, peak: field("VmHWM:")? })
}
