//! Measures honest clients of the packaged program, with and without hostile clients. Fails if hostile clients impair
//! the honest ones.

mod exchange;
mod honest;
mod hostile;
mod report;
mod server;
mod service;
mod timing;

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Parser;
use tokio::net::TcpStream;

use crate::exchange::Request;
use crate::report::{Phase, Report};
use crate::server::Server;

/// Interval between two measurements of the server's memory.
const SAMPLE: Duration = Duration::from_secs(10);
/// Warm-up before the first measurement.
const WARM_UP: Duration = Duration::from_secs(5);

/// Measure honest clients with and without hostile ones.
#[derive(Debug, Parser)]
struct Arguments {
    /// Duration with hostile clients, in seconds.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Duration without hostile clients, in seconds.
    #[arg(long, default_value_t = 60)]
    baseline_seconds: u64,
    /// Number of connections. A tenth of them belong to hostile clients.
    #[arg(long, default_value_t = 1000)]
    connections: usize,
    /// Only compare the response times for denied tools and for unknown tools, with this number of pairs of requests.
    #[arg(long, value_name = "PAIRS")]
    timing: Option<usize>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    ensure!(arguments.connections >= 10, "`connections` must be at least 10");
    let service = service::start().await?;
    let server = Arc::new(Server::start(service).await?);
    if let Some(pairs) = arguments.timing {
        let table = timing::compare(&server, pairs).await?;
        return Ok(writeln!(std::io::stdout(), "\n{table}")?);
    }
    let honest = arguments.connections - arguments.connections / 10;
    let seconds = Duration::from_secs;
    phase(&server, honest, 0, WARM_UP).await?;
    progress(&format!("{honest} honest connections"));
    let baseline = phase(&server, honest, 0, seconds(arguments.baseline_seconds)).await?;
    progress(&format!(
        "{honest} honest connections and {} hostile ones",
        arguments.connections / 10
    ));
    let length = seconds(arguments.seconds);
    let attacked = phase(&server, honest, arguments.connections / 10, length).await?;
    let report = Report { connections: arguments.connections, length, baseline, attacked };
    let text = report.markdown();
    writeln!(std::io::stdout(), "\n{text}")?;
    report.check()
}

/// Runs clients for a duration.
async fn phase(
    server: &Arc<Server>,
    honest: usize,
    hostile: usize,
    length: Duration,
) -> anyhow::Result<Phase> {
    let stop = Arc::new(AtomicBool::new(false));
    let honest: Vec<_> = (0..honest)
        .map(|number| tokio::spawn(honest::run(number, Arc::clone(server), Arc::clone(&stop))))
        .collect();
    let hostile: Vec<_> =
        (0..hostile).map(|number| tokio::spawn(hostile::run(number, Arc::clone(server)))).collect();
    let probes = tokio::spawn(probe(Arc::clone(server), Arc::clone(&stop)));
    let mut memory = Vec::new();
    let started = Instant::now();
    while started.elapsed() < length {
        tokio::time::sleep(SAMPLE.min(length.saturating_sub(started.elapsed()))).await;
        memory.push(server.resident_bytes()?);
        progress(&format!(
            "{:4} s {} MiB",
            started.elapsed().as_secs(),
            memory.last().unwrap_or(&0) >> 20
        ));
    }
    stop.store(true, Ordering::Relaxed);
    let elapsed = started.elapsed();
    let mut outcomes = Vec::new();
    for client in honest {
        outcomes.push(client.await?);
    }
    for client in hostile {
        client.abort();
    }
    Ok(Phase::new(elapsed, outcomes, memory, probes.await?))
}

/// Requests `/healthz` every second, on a new connection from another address. Returns the longest response time.
async fn probe(server: Arc<Server>, stop: Arc<AtomicBool>) -> Duration {
    let mut longest = Duration::ZERO;
    let request = Request::get("/healthz", "");
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let started = Instant::now();
        let connected = exchange::connect([127, 0, 0, 200], server.address).await;
        let is_successful = match connected {
            Ok(mut stream) => is_successful(&mut stream, &request).await,
            Err(_) => false,
        };
        let elapsed = if is_successful { started.elapsed() } else { Duration::MAX };
        longest = longest.max(elapsed);
    }
    longest
}

async fn is_successful(stream: &mut TcpStream, request: &Request) -> bool {
    exchange::send(stream, request, &mut Vec::new()).await.is_ok_and(|reply| reply.status == 200)
}

/// Prints progress to stderr.
fn progress(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
