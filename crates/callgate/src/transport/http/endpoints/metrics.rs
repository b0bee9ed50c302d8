//! `GET /metrics`: what is counted, in the text form of Prometheus. Nothing in it is about callers.

use std::fmt::Write as _;

use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};

use crate::gateway::{Gateway, UpstreamState};
use crate::transport::http::{RegistryHealth, Shared};

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

pub(crate) fn metrics(shared: &Shared) -> Response {
    let registry = shared.readiness.registry();
    ([(CONTENT_TYPE, TEXT)], text(&shared.gateway, registry.as_ref())).into_response()
}

fn text(gateway: &Gateway, registry: Option<&RegistryHealth>) -> String {
    let mut page = Page::default();
    if let Some(registry) = registry {
        page.registry(registry);
    }
    let (catalog, upstreams) = (gateway.catalog(), gateway.upstream_states());
    let (used, limit) = gateway.in_flight_bytes();
    let quarantined = catalog.quarantined().len();
    page.single("callgate_tools", "gauge", "Methods that are tools.", catalog.len());
    let help = "Definitions that are wrong, and not served.";
    page.single("callgate_quarantined", "gauge", help, quarantined);
    page.single("callgate_result_bytes", "gauge", "Bytes of large results in memory.", used);
    page.single("callgate_result_bytes_limit", "gauge", "How many they may be.", limit);
    let mut each = |name, kind, help, value: fn(&UpstreamState) -> u64| {
        page.family(name, kind, help);
        for one in &upstreams {
            page.sample(&labels(one, None), value(one));
        }
    };
    each("callgate_upstream_down", "gauge", "1 while an upstream is left alone.", |one| {
        one.is_down.into()
    });
    each("callgate_upstream_calls_under_way", "gauge", "Calls that have not ended.", |one| {
        one.counters.under_way
    });
    let help = "Requests that were sent once more.";
    each("callgate_upstream_retries_total", "counter", help, |one| one.counters.retries);
    page.family("callgate_upstream_calls_total", "counter", "Calls that ended, by how they did.");
    for one in &upstreams {
        for (outcome, count) in &one.counters.outcomes {
            page.sample(&labels(one, Some(outcome)), count);
        }
    }
    page.text
}

/// `{upstream="shop",outcome="result"}`
fn labels(one: &UpstreamState, outcome: Option<&str>) -> String {
    let name = one.name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    match outcome {
        Some(outcome) => format!("{{upstream=\"{name}\",outcome=\"{outcome}\"}}"),
        None => format!("{{upstream=\"{name}\"}}"),
    }
}

#[derive(Default)]
struct Page {
    text: String,
    family: &'static str,
}

impl Page {
    fn registry(&mut self, registry: &RegistryHealth) {
        let (age, help) = (
            "callgate_registry_contact_age_seconds",
            "How long ago the last look at the registry that succeeded began.",
        );
        self.single(age, "gauge", help, registry.contact_age.as_secs_f64());
        let (failures, help) = ("callgate_registry_failures_total", "Looks at it that failed.");
        self.single(failures, "counter", help, registry.failures);
        let (sent, help) = ("callgate_registry_statements_total", "Statements that it was sent.");
        self.single(sent, "counter", help, registry.statements);
        self.family("callgate_registry_reads_total", "counter", "What was asked of it, by what.");
        for (what, count) in &registry.reads {
            self.sample(&format!("{{what=\"{what}\"}}"), count);
        }
    }

    /// A family of one sample.
    fn single(
        &mut self,
        name: &'static str,
        kind: &str,
        help: &str,
        value: impl std::fmt::Display,
    ) {
        self.family(name, kind, help);
        self.sample("", value);
    }

    fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.family = name;
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, labels: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.text, "{}{labels} {value}", self.family);
    }
}
