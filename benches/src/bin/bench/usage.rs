//! What processes have used, from `/proc`.

use std::fs;
use std::time::Duration;

use anyhow::Context as _;

/// Memory of a process, in KiB.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) resident: u32,
    pub(crate) peak: u32,
}

/// Time of a process, to the nanosecond.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CpuTime {
    /// How long its threads were on a core.
    pub(crate) running: Duration,
    /// How long they could have been, while something else was.
    pub(crate) waiting: Duration,
}

/// What a round has used, or everything up to a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    /// By the server.
    pub(crate) server: CpuTime,
    /// By the service behind the server, on the same core.
    upstream: CpuTime,
    /// By the load generator, which is this process.
    pub(crate) generator: CpuTime,
    /// Taken away by the host, see [`stolen`].
    pub(crate) stolen: Duration,
}

impl Used {
    /// Up to now.
    pub(crate) fn now(server: u32, upstream: Option<u32>) -> anyhow::Result<Self> {
        let upstream = upstream.map(cpu_time).transpose()?.unwrap_or_default();
        let generator = cpu_time(std::process::id())?;
        Ok(Self { server: cpu_time(server)?, upstream, generator, stolen: stolen()? })
    }

    /// How long the server could have been on its core, while something else was that does not belong
    /// to the measurement.
    pub(crate) fn server_disturbed(&self) -> Duration {
        self.server.waiting.saturating_sub(self.upstream.running)
    }

    /// How long the server and what is behind it were on their core.
    pub(crate) fn core_busy(&self) -> Duration {
        self.server.running + self.upstream.running
    }

    /// Since an earlier moment.
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

/// The time of all threads of a process so far.
fn cpu_time(process: u32) -> anyhow::Result<CpuTime> {
    let directory = format!("/proc/{process}/task");
    let mut total = CpuTime::default();
    for thread in fs::read_dir(&directory).with_context(|| format!("cannot read {directory}"))? {
        let text = fs::read_to_string(thread?.path().join("schedstat"))?;
        let mut fields = text.split_whitespace().map(str::parse);
        let mut next = || anyhow::Ok(fields.next().context("schedstat is too short")??);
        total.running += Duration::from_nanos(next()?);
        total.waiting += Duration::from_nanos(next()?);
    }
    Ok(total)
}

/// How long a core has been taken away by the host of a virtual machine, on average over the cores.
fn stolen() -> anyhow::Result<Duration> {
    /// The kernel counts here in hundredths of a second.
    const TICK: Duration = Duration::from_millis(10);
    let text = fs::read_to_string("/proc/stat")?;
    let cores = text.lines().filter(|line| line.starts_with("cpu"));
    // The name, then user, nice, system, idle, iowait, irq, softirq, steal; the first line is all.
    let ticks = cores.clone().next().and_then(|line| line.split_whitespace().nth(8));
    let ticks: u32 = ticks.context("no stolen time in /proc/stat")?.parse()?;
    let cores = u32::try_from(cores.count().saturating_sub(1))?;
    Ok(TICK * ticks / cores.max(1))
}

/// How much memory a process has, and has had at most.
pub(crate) fn memory(process: u32) -> anyhow::Result<Memory> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let field = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let kibibytes = value.trim().trim_end_matches(" kB");
        kibibytes.parse().with_context(|| format!("no {name} in /proc/{process}/status"))
    };
    Ok(Memory { resident: field("VmRSS:")?, peak: field("VmHWM:")? })
}
