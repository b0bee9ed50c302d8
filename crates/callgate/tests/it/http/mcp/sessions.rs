//! Legacy sessions.

use super::*;

async fn open_session<'a>(app: &'a App, caller: &'a str, revision: &'a str) -> Client<'a> {
    let mut client = app.client(caller, revision);
    client.initialize().await;
    client
}

async fn end(app: &App, client: &Client<'_>) -> Reply {
    let request = request("DELETE", client.caller, "/mcp")
        .header("mcp-session-id", client.session.as_deref().unwrap());
    app.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn a_session_survives_a_restart_and_is_valid_on_every_server() {
    let (app, _) = app();
    let session = open_session(&app, "reader", "2025-06-18").await.session;
    // Another server with the same key: a replica, or the same server after a restart.
    let (other, _) = super::app();
    let client = Client { session, ..other.client("reader", "2025-06-18") };
    client.call("shape_object", json!({})).await;
    client.result("tools/list", json!({})).await;
}

#[tokio::test]
async fn a_client_without_its_session_id_is_served() {
    let (app, _) = app();
    let mut client = open_session(&app, "reader", "2025-06-18").await;
    client.session = None;
    client.call("shape_object", json!({})).await;
}

#[tokio::test]
async fn a_session_is_bound_to_its_user() {
    let (app, _) = app();
    let session = open_session(&app, "reader", "2025-06-18").await.session;
    for caller in ["admin", ""] {
        let other_user = Client { session: session.clone(), ..app.client(caller, "2025-06-18") };
        assert_eq!(other_user.error("tools/list", json!({})).await, (404, -32600));
    }
}

#[tokio::test]
async fn invalid_and_ended_sessions_are_404_in_json() {
    let (app, _) = app();
    for id in ["bogus", "", "AQIAAQAAAAAAAAACk2x"] {
        let client = Client { session: Some(id.to_owned()), ..app.client("reader", "2025-06-18") };
        let reply = client.request("ping", json!({})).await;
        assert_eq!(code(&reply), (404, -32600), "{id}");
        assert_eq!(reply.json()["id"], 1);
        assert_eq!(reply.header("content-type"), "application/json");
    }
    let client = open_session(&app, "reader", "2025-06-18").await;
    assert_eq!(end(&app, &client).await.status, 204);
    assert_eq!(client.error("ping", json!({})).await, (404, -32600));
    assert_eq!(end(&app, &client).await.status, 404, "the session has ended");
    let none = app.send(request("DELETE", "reader", "/mcp").body(Body::empty()).unwrap()).await;
    assert_eq!(code(&none), (400, -32600));
}

#[tokio::test]
async fn the_revision_of_the_session_applies_to_requests_without_a_revision_header() {
    let (app, _) = app();
    let client = open_session(&app, "reader", "2024-11-05").await;
    let body = client.message("tools/list", json!({})).to_string();
    let list_request = |session: Option<&str>| {
        let mut request = request("POST", "reader", "/mcp");
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        request.body(Body::from(body.clone())).unwrap()
    };
    let has_titles = async |request| app.send(request).await.text.contains("\"title\":");
    assert!(!has_titles(list_request(client.session.as_deref())).await);
    assert!(!has_titles(list_request(None)).await, "the default revision is 2025-03-26");
    let newer = open_session(&app, "reader", "2025-06-18").await;
    assert!(has_titles(list_request(newer.session.as_deref())).await);
}

#[tokio::test]
async fn initialize_ignores_the_session_id_of_its_request() {
    let (app, _) = app();
    let mut client =
        Client { session: Some("bogus".to_owned()), ..app.client("reader", "2025-06-18") };
    client.initialize().await;
    client.result("ping", json!({})).await;
}

#[tokio::test]
async fn modern_requests_ignore_a_session_id() {
    let (app, _) = app();
    let client = Client { session: Some("bogus".to_owned()), ..app.client("reader", MODERN) };
    client.call("shape_object", json!({})).await;
}

#[tokio::test]
async fn a_cancelled_notification_ends_the_call_of_its_session_only() {
    let (app, slow) = app();
    let client = open_session(&app, "reader", "2025-06-18").await;
    let other = open_session(&app, "reader", "2025-06-18").await;
    let cancel = async |client: &Client<'_>, id: Value| {
        let params = json!({"requestId": id, "reason": "enough"});
        let notification =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        assert_eq!(client.send(&notification).await.status, 202);
    };
    let call = client.request("tools/call", json!({"name": "slow"}));
    let rest = async {
        slow.wait_until_started().await;
        cancel(&other, json!(1)).await;
        cancel(&client, json!("1")).await;
        cancel(&client, json!(2)).await;
        assert_eq!(slow.counts(), (0, 0), "wrong session, type or id");
        cancel(&client, json!(1)).await;
    };
    let (reply, ()) = tokio::join!(call, rest);
    assert_eq!((reply.status.as_u16(), reply.text.as_str()), (200, ""), "the reply is empty");
    assert_eq!(slow.counts(), (0, 1));
    cancel(&client, json!(1)).await;
}
