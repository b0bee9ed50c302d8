//! Checks whether denied and unknown tools can be distinguished by the time of their replies.

use std::fmt::Write as _;
use std::time::Instant;

use anyhow::ensure;
use serde_json::{Value, json};

use crate::exchange::{self, Request};
use crate::server::{HONEST_USERS, Server};

/// A tool of the demo that users without grants may not use.
const DENIED: &str = "content.article.delete";
/// An unknown tool of the same length.
const UNKNOWN: &str = "content.article.delats";

/// Minimum absolute z of the Mann-Whitney test at which a difference is significant. By chance, at least one of the
/// five endpoints exceeds this value in fewer than one of 3,000 runs.
const SIGNIFICANT: f64 = 4.0;

/// Requests both tools alternately at every endpoint. Returns a table. If a difference is significant, the table is
/// part of an error.
pub(crate) async fn compare(server: &Server, pairs: usize) -> anyhow::Result<String> {
    let mut stream = exchange::connect([127, 0, 0, 1], server.address).await?;
    let mut buffer = Vec::new();
    let count = requests("", "").len();
    let mut times = vec![[Vec::new(), Vec::new()]; count];
    let warm_up = pairs / 10;
    for pair in 0..pairs + warm_up {
        // Uses many users, so that no user exceeds the rate limit.
        let user = server.tokens.get(pair % HONEST_USERS).map_or("", String::as_str);
        let mut tools = [(DENIED, 0), (UNKNOWN, 1)];
        // Alternates which of the two comes first.
        tools.rotate_left(pair % 2);
        for (tool, column) in tools {
            for ((_, request), times) in requests(tool, user).iter().zip(&mut times) {
                let started = Instant::now();
                let reply = exchange::send(&mut stream, request, &mut buffer).await?;
                let micros = started.elapsed().as_secs_f64() * 1e6;
                ensure!(
                    matches!(reply.status, 200 | 404),
                    "expected status 200 or 404, found {}",
                    reply.status
                );
                if let Some(times) = times.get_mut(column).filter(|_| pair >= warm_up) {
                    times.push(micros);
                }
            }
        }
    }
    let mut table = String::from(
        "| endpoint | denied, median in µs | unknown | Mann-Whitney z |\n| --- | --- | --- | --- |\n",
    );
    let mut largest: f64 = 0.0;
    for ((name, _), [denied, unknown]) in requests("", "").iter().zip(&mut times) {
        let z = mann_whitney(denied, unknown);
        largest = largest.max(z.abs());
        let median = |times: &[f64]| times.get(times.len() / 2).copied().unwrap_or(f64::NAN);
        let (denied, unknown) = (median(denied), median(unknown));
        writeln!(table, "| {name} | {denied:.2} | {unknown:.2} | {z:.2} |")?;
    }
    ensure!(
        largest < SIGNIFICANT,
        "the response times for denied and unknown tools differ:\n{table}"
    );
    Ok(table)
}

fn requests(id: &str, token: &str) -> [(&'static str, Request); 5] {
    let message = |method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
    };
    let post = |path: &str, body: String| {
        Request::post(path, token, "Content-Type: application/json\r\n", &body)
    };
    let arguments = json!({"id": 1});
    let invoke = json!({"name": id, "arguments": arguments}).to_string();
    let call = json!({"name": id.replace('.', "_"), "arguments": arguments});
    [
        ("describe", Request::get(&format!("/mcp/tools/describe?name={id}"), token)),
        ("invoke", post("/mcp/tools/invoke", invoke)),
        ("URL of the tool", post(&format!("/mcp/tools/{id}"), message(id, arguments.clone()))),
        ("`/jsonrpc`", post("/jsonrpc", message(id, arguments))),
        ("`tools/call`", post("/mcp", message("tools/call", call))),
    ]
}

/// Sorts two samples of the same size, and returns the z of the Mann-Whitney test. The z is positive if the values of
/// the first sample are larger.
#[expect(clippy::cast_precision_loss, reason = "far fewer samples than 2^52")]
fn mann_whitney(first: &mut [f64], second: &mut [f64]) -> f64 {
    first.sort_by(f64::total_cmp);
    second.sort_by(f64::total_cmp);
    // Twice the number of pairs in which the first value is larger. Pairs of equal values count half.
    let wins: usize = first
        .iter()
        .map(|time| {
            second.partition_point(|other| other < time)
                + second.partition_point(|other| other <= time)
        })
        .sum();
    let n = first.len() as f64;
    (wins as f64 / 2.0 - n * n / 2.0) / (n * n * (2.0 * n + 1.0) / 12.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shifted_sample_is_significant_and_an_equal_sample_is_not() {
        let sample = |shift: u32| -> Vec<f64> {
            (0..1_000_u32).map(|number| f64::from(number * 7919 % 1_000 + shift)).collect()
        };
        assert!(mann_whitney(&mut sample(0), &mut sample(0)).abs() < 0.01);
        assert!(mann_whitney(&mut sample(200), &mut sample(0)) > SIGNIFICANT);
        assert!(mann_whitney(&mut sample(0), &mut sample(200)) < -SIGNIFICANT);
    }
}
