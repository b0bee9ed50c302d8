//! CPU time and memory of processes, from `/proc`.

use std::fs;
use std::time::Duration;

use anyhow::Context as _;

/// Memory of a process, in KiB.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) resident: u32,
    pub(crate) peak: u32,
}

/// CPU time of a process.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CpuTime {
    /// Time on a core.
    pub(crate) running: Duration,
    /// Time in the run queue.
    pub(crate) waiting: Duration,
}

/// CPU time of a round, or the total so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    /// Server.
    pub(crate) server: CpuTime,
    /// Service behind the server, on the same core.
    upstream: CpuTime,
    /// Load generator, which is this process.
    pub(crate) generator: CpuTime,
    /// Time stolen by the host, see [`stolen`].
    pub(crate) stolen: Duration,
}

impl Used {
    /// Reads the totals so far.
    pub(crate) fn now(server: u32, upstream: Option<u32>) -> anyhow::Result<Self> {
        let upstream = upstream.map(cpu_time).transpose()?.unwrap_or_default();
        let generator = cpu_time(std::process::id())?;
        Ok(Self { server: cpu_time(server)?, upstream, generator, stolen: stolen()? })
    }

    /// Returns the time for which the server waited for processes outside of the measurement.
    pub(crate) fn server_disturbed(&self) -> Duration {
        self.server.waiting.saturating_sub(self.upstream.running)
    }

    /// Returns the time for which the server and the service were on their core.
    pub(crate) fn core_busy(&self) -> Duration {
        self.server.running + self.upstream.running
    }

    /// Returns the difference to earlier totals.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            server: self.server.since(before.server),
            upstream: self.upstream.since(before.upstream),
            generator: self.generator.since(before.generator),
            stolen: self.stolen.saturating_sub(before.stolen),
        }
    }
}

impl CpuTime {
    fn since(self, before: Self) -> Self {
        Self {
            running: self.running.saturating_sub(before.running),
            waiting: self.waiting.saturating_sub(before.waiting),
        }
    }
}

/// Returns the CPU time of all threads of a process.
fn cpu_time(process: u32) -> anyhow::Result<CpuTime> {
    let directory = format!("/proc/{process}/task");
    let mut total = CpuTime::default();
    for thread in fs::read_dir(&directory).with_context(|| format!("failed to read {directory}"))? {
        let text = fs::read_to_string(thread?.path().join("schedstat"))?;
        let mut fields = text.split_whitespace().map(str::parse);
        let mut next = || anyhow::Ok(fields.next().context("schedstat is too short")??);
        total.running += Duration::from_nanos(next()?);
        total.waiting += Duration::from_nanos(next()?);
    }
    Ok(total)
}

/// Returns the time stolen by the host of a virtual machine, as the average of the cores.
fn stolen() -> anyhow::Result<Duration> {
    /// The kernel counts in hundredths of a second.
    const TICK: Duration = Duration::from_millis(10);
    let text = fs::read_to_string("/proc/stat")?;
    let cores = text.lines().filter(|line| line.starts_with("cpu"));
    // Name, user, nice, system, idle, iowait, irq, softirq, steal. The first line is the sum.
    let ticks = cores.clone().next().and_then(|line| line.split_whitespace().nth(8));
    let ticks: u32 = ticks.context("no stolen time in /proc/stat")?.parse()?;
    let cores = u32::try_from(cores.count().saturating_sub(1))?;
    Ok(TICK * ticks / cores.max(1))
}

/// Returns the current and the peak memory of a process.
pub(crate) fn memory(process: u32) -> anyhow::Result<Memory> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let field = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let kibibytes = value.trim().trim_end_matches(" kB");
        kibibytes.parse().with_context(|| format!("no {name} in /proc/{process}/status"))
    };
    Ok(Memory { resident: field("VmRSS:")?, peak: field("VmHWM:")? })
}
