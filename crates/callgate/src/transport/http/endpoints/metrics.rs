//! `GET /metrics`: counters and gauges in the text format of Prometheus. No metric contains data about callers.

use std::fmt::{Display, Write as _};

use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};

use crate::gateway::UpstreamState;
use crate::transport::http::SharedState;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

pub(crate) fn metrics(state: &SharedState) -> Response {
    let mut metrics = MetricsWriter::default();
    if let Some(check) = state.readiness.state().check {
        check.write_metrics(&mut metrics);
    }
    let gateway = &state.gateway;
    let (catalog, upstreams) = (gateway.catalog(), gateway.upstream_states());
    let (used, limit) = gateway.in_flight_bytes();
    metrics.gauge("callgate_tools", "Number of tools.", catalog.len());
    let help = "Invalid definitions, which are not served.";
    metrics.gauge("callgate_quarantined", help, catalog.quarantined().len());
    let help = "Bytes of results in memory, except small results.";
    metrics.gauge("callgate_result_bytes", help, used);
    metrics.gauge("callgate_result_bytes_limit", "Maximum of callgate_result_bytes.", limit);
    let help = "Requests that exceeded a rate limit.";
    metrics.counter("callgate_rate_limited_total", help, gateway.rate_limited());
    let help = "Servers that share the rate limits, including this one.";
    metrics.gauge("callgate_rate_limit_servers", help, gateway.rate_limit_servers());
    let mut write_family = |name, kind, help, value: fn(&UpstreamState) -> u64| {
        metrics.family(name, kind, help);
        for upstream in &upstreams {
            metrics.sample(&labels(upstream, None), value(upstream));
        }
    };
    let help = "1 while the upstream is unreachable and calls to it fail at once.";
    write_family("callgate_upstream_down", "gauge", help, |upstream| upstream.is_down.into());
    let help = "Calls in progress.";
    write_family("callgate_upstream_calls_in_progress", "gauge", help, |upstream| {
        upstream.counters.under_way
    });
    let help = "Requests that were retried.";
    write_family("callgate_upstream_retries_total", "counter", help, |upstream| {
        upstream.counters.retries
    });
    let help = "Completed calls by outcome.";
    metrics.family("callgate_upstream_calls_total", "counter", help);
    for upstream in &upstreams {
        for (outcome, count) in &upstream.counters.outcomes {
            metrics.sample(&labels(upstream, Some(outcome)), count);
        }
    }
    ([(CONTENT_TYPE, TEXT)], metrics.text).into_response()
}

/// Returns labels, such as `{upstream="shop",outcome="result"}`.
fn labels(upstream: &UpstreamState, outcome: Option<&str>) -> String {
    let name = upstream.name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    match outcome {
        Some(outcome) => format!("{{upstream=\"{name}\",outcome=\"{outcome}\"}}"),
        None => format!("{{upstream=\"{name}\"}}"),
    }
}

/// Writes metrics in the text format of Prometheus.
///
/// Argument of [`ReadinessCheck::write_metrics`](crate::http::ReadinessCheck::write_metrics).
/// [`ReadinessCheck`](crate::http::ReadinessCheck) has an example.
#[derive(Debug, Default)]
pub struct MetricsWriter {
    text: String,
    family: &'static str,
}

impl MetricsWriter {
    /// Writes a gauge without labels.
    pub fn gauge(&mut self, name: &'static str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.sample("", value);
    }

    /// Writes a counter without labels.
    pub fn counter(&mut self, name: &'static str, help: &str, value: impl Display) {
        self.family(name, "counter", help);
        self.sample("", value);
    }

    /// Begins a family of samples. `kind` is `counter` or `gauge`.
    pub fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.family = name;
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Writes a sample of the family. `labels` is empty or has the form `{name="value"}`.
    pub fn sample(&mut self, labels: &str, value: impl Display) {
        let _ = writeln!(self.text, "{}{labels} {value}", self.family);
    }
}
