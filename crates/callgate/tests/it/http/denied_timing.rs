//! Whether denied and unknown tools can be told apart by time, in pairs of requests on every endpoint.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Instant;

use super::*;

const PAIRS: usize = 5_000;
const DENIED: &str = "content.article.delete";
const UNKNOWN: &str = "content.article.delats";

fn requests(id: &str) -> [(&'static str, Request<Body>); 5] {
    let rpc = |method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
    };
    let post =
        |path: &str, body: String| request("POST", "reader", path).body(body.into()).unwrap();
    let describe = request("GET", "reader", &format!("/mcp/tools/describe?name={id}"));
    let arguments = json!({"id": 1});
    [
        ("REST describe", describe.body(Body::empty()).unwrap()),
        (
            "REST invoke",
            post("/mcp/tools/invoke", json!({"name": id, "arguments": arguments}).to_string()),
        ),
        ("URL of a tool", post(&format!("/mcp/tools/{id}"), rpc(id, arguments.clone()))),
        ("/jsonrpc", post("/jsonrpc", rpc(id, arguments.clone()))),
        (
            "tools/call",
            post(
                "/mcp",
                rpc("tools/call", json!({"name": id.replace('.', "_"), "arguments": arguments})),
            ),
        ),
    ]
}

/// Returns Welch's t without the slowest twentieth of each, and the z of Mann and Whitney.
#[expect(clippy::cast_precision_loss, reason = "nanoseconds")]
fn difference(denied: &mut [f64], unknown: &mut [f64]) -> (f64, f64) {
    denied.sort_by(f64::total_cmp);
    unknown.sort_by(f64::total_cmp);
    let moments = |times: &[f64]| {
        let kept = &times[..times.len() * 19 / 20];
        let mean = kept.iter().sum::<f64>() / kept.len() as f64;
        let squares = kept.iter().map(|time| (time - mean).powi(2)).sum::<f64>();
        (mean, squares / (kept.len() - 1) as f64 / kept.len() as f64)
    };
    let ((a, va), (b, vb)) = (moments(denied), moments(unknown));
    let below: usize = denied.iter().map(|time| unknown.partition_point(|it| it < time)).sum();
    let equal: usize = denied
        .iter()
        .map(|time| {
            unknown.partition_point(|it| it <= time) - unknown.partition_point(|it| it < time)
        })
        .sum();
    let n = denied.len() as f64;
    let u = below as f64 + equal as f64 / 2.0;
    ((a - b) / (va + vb).sqrt(), (u - n * n / 2.0) / (n * n * (2.0 * n + 1.0) / 12.0).sqrt())
}

#[tokio::test(flavor = "current_thread")]
#[ignore = "a measurement, for a machine without other load: run it alone, with --release"]
async fn denied_and_unknown_tools_take_the_same_time() {
    let subscriber = tracing_subscriber::fmt().with_writer(std::io::sink).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let app = App::new();
    let count = requests(DENIED).len();
    let mut times = vec![[Vec::new(), Vec::new()]; count];
    for pair in 0..PAIRS + PAIRS / 10 {
        // Alternates which of the two comes first.
        let mut both = [(0, requests(DENIED)), (1, requests(UNKNOWN))];
        both.rotate_left(pair % 2);
        let [(first, one), (second, other)] = both;
        for (index, (one, other)) in one.into_iter().zip(other).enumerate() {
            for (which, (_, request)) in [(first, one), (second, other)] {
                let start = Instant::now();
                let reply = app.respond(request).await;
                let time = start.elapsed();
                assert!(reply.status() == 404 || index >= 3, "{}", reply.status());
                if pair >= PAIRS / 10 {
                    times[index][which].push(time.as_secs_f64() * 1e9);
                }
            }
        }
    }
    let mut worst: f64 = 0.0;
    let mut report =
        String::from("endpoint          median ns: denied  unknown  Welch t  Mann-Whitney z\n");
    for ((name, _), [denied, unknown]) in requests(DENIED).iter().zip(&mut times) {
        let (t, z) = difference(denied, unknown);
        worst = worst.max(z.abs());
        let (a, b) = (denied[PAIRS / 2], unknown[PAIRS / 2]);
        writeln!(report, "{name:<28}{a:>7.0}{b:>9.0}{t:>9.2}{z:>16.2}").unwrap();
    }
    std::io::stderr().write_all(report.as_bytes()).unwrap();
    assert!(worst < 4.0, "a difference is significant:\n{report}");
}
