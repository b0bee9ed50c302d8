//! Health, readiness, discovery.

use super::*;

#[tokio::test]
async fn healthz_is_always_ok() {
    assert_eq!(App::new().get("", "/healthz").await.parts(), (200, json!({"status": "ok"})));
}

#[tokio::test]
async fn readyz_is_503_until_the_first_snapshot_and_says_when_it_is_stale() {
    let app = App::new();
    assert_eq!(app.get("", "/readyz").await.parts(), (503, json!({"status": "starting"})));
    app.readiness.set_failed("too early to be stale");
    assert_eq!(app.get("", "/readyz").await.status, StatusCode::SERVICE_UNAVAILABLE);
    app.readiness.set_ready();
    assert_eq!(
        app.get("", "/readyz").await.parts(),
        (200, json!({"status": "ready", "tools": 9, "quarantined": 0}))
    );
    app.readiness.set_failed("the database is away");
    let reply = app.get("", "/readyz").await;
    assert_eq!(reply.status, StatusCode::OK, "the last good snapshot is served");
    assert_eq!(reply.json()["status"], "stale");
    assert_eq!(reply.json()["reason"], "the database is away");
}

#[tokio::test]
async fn b71_the_discovery_document_names_the_faces() {
    insta::assert_json_snapshot!(App::new().get("", "/.well-known/mcp.json").await.json());
}
