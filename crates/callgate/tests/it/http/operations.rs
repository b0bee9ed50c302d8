//! Health, readiness, discovery.

use callgate::http::{Degraded, EndpointSet, MetricsWriter, ReadinessCheck};

use super::*;

#[tokio::test]
async fn healthz_is_always_ok() {
    assert_eq!(App::new().get("", "/healthz").await.parts(), (200, json!({"status": "ok"})));
}

#[tokio::test]
async fn readyz_is_503_until_the_first_snapshot_and_reports_a_stale_snapshot() {
    let app = App::new();
    assert_eq!(app.get("", "/readyz").await.parts(), (503, json!({"status": "starting"})));
    app.readiness.set_failed("too early to be stale");
    assert_eq!(app.get("", "/readyz").await.status, StatusCode::SERVICE_UNAVAILABLE);
    app.readiness.set_ready();
    assert_eq!(
        app.get("reader", "/readyz").await.parts(),
        (200, json!({"status": "ready", "tools": 9, "quarantined": 0}))
    );
    app.readiness.set_failed("the database is away");
    let reply = app.get("reader", "/readyz").await;
    assert_eq!(reply.status, StatusCode::OK, "the last good snapshot is served");
    assert_eq!(reply.json()["status"], "stale");
    assert_eq!(reply.json()["reason"], "the database is away");
}

#[tokio::test]
async fn readyz_has_no_details_without_a_valid_token() {
    let app = App::new();
    app.readiness.set_ready();
    app.readiness.set_failed("the database is away");
    for caller in ["", "nobody"] {
        let reply = app.get(caller, "/readyz").await;
        assert_eq!(reply.parts(), (200, json!({"status": "stale"})), "{caller}");
    }
}

#[tokio::test]
async fn only_the_operations_address_has_readiness_details_and_metrics() {
    let operations = App::with(
        application(),
        options(|options| {
            options.endpoints = EndpointSet::Operations;
            options.require_auth = true;
        }),
    );
    operations.readiness.set_ready();
    assert_eq!(operations.get("", "/readyz").await.json()["tools"], 9);
    let page = request("GET", "", "/readyz").header("host", "evil.example.com");
    let page = operations.send(page.body(Body::empty()).unwrap()).await;
    assert_eq!(page.parts(), (200, json!({"status": "ready"})), "no details for another host");
    assert!(operations.get("", "/metrics").await.text.contains("callgate_tools 9"));
    for path in ["/mcp", "/jsonrpc", "/mcp/tools/list", "/.well-known/mcp.json"] {
        assert_eq!(operations.get("admin", path).await.status, 404, "{path}");
    }
    let public = App::with(
        application(),
        options(|options| {
            options.endpoints = EndpointSet::Public;
            options.metrics = true;
        }),
    );
    public.readiness.set_ready();
    assert_eq!(public.get("admin", "/readyz").await.parts(), (200, json!({"status": "ready"})));
    assert_eq!(public.get("admin", "/metrics").await.status, 404);
    assert_eq!(public.get("admin", "/mcp/tools/list").await.status, 200);
}

/// A registry that cannot be read. The value is the time for which tokens are still accepted.
#[derive(Debug)]
struct UnreadableRegistry(Duration);

impl ReadinessCheck for UnreadableRegistry {
    fn degraded(&self) -> Option<Degraded> {
        Some(Degraded {
            reason: "the registry was last read 12 s ago".to_owned(),
            details: vec![("registry_age_seconds", 12)],
            credentials_accepted_for: Some(self.0),
        })
    }

    fn write_metrics(&self, metrics: &mut MetricsWriter) {
        metrics.gauge("callgate_registry_age_seconds", "Age.", 12.9);
        metrics.counter("callgate_registry_failures_total", "Failures.", 3);
        metrics.family("callgate_registry_reads_total", "counter", "Reads.");
        metrics.sample("{what=\"revisions\"}", 7);
        metrics.sample("{what=\"tokens\"}", 2);
    }
}

#[tokio::test]
async fn readyz_reports_a_failing_check_and_is_503_if_all_callers_are_refused() {
    let app = App::with(application(), options(|options| options.metrics = true));
    let closed = App::with(application(), options(|options| options.require_auth = true));
    let mut replies = Vec::new();
    let long = Duration::from_millis(47_100);
    for (app, remaining) in [(&app, long), (&app, Duration::ZERO), (&closed, Duration::ZERO)] {
        app.readiness.set_ready();
        app.readiness.set_check(Arc::new(UnreadableRegistry(remaining)));
        replies.push(app.get("reader", "/readyz").await.parts());
    }
    let body = |remaining: u64, tokens: &str| {
        json!({
            "status": "stale",
            "reason": format!("the registry was last read 12 s ago; {tokens}"),
            "registry_age_seconds": 12,
            "token_grace_remaining_seconds": remaining,
            "tools": 9,
            "quarantined": 0,
        })
    };
    let expected = [
        (200, body(47, "tokens that were verified before are accepted for 47 s more")),
        (200, body(0, "callers with a token are refused")),
        (503, body(0, "all callers are refused")),
    ];
    assert_eq!(replies, expected);
    let metrics = app.get("", "/metrics").await.text;
    let lines = metrics.lines().filter(|line| line.contains("callgate_registry"));
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r#"
    # HELP callgate_registry_age_seconds Age.
    # TYPE callgate_registry_age_seconds gauge
    callgate_registry_age_seconds 12.9
    # HELP callgate_registry_failures_total Failures.
    # TYPE callgate_registry_failures_total counter
    callgate_registry_failures_total 3
    # HELP callgate_registry_reads_total Reads.
    # TYPE callgate_registry_reads_total counter
    callgate_registry_reads_total{what="revisions"} 7
    callgate_registry_reads_total{what="tokens"} 2
    "#);
}

#[tokio::test]
async fn the_discovery_document_names_the_endpoints() {
    insta::assert_json_snapshot!(App::new().get("", "/.well-known/mcp.json").await.json());
}
