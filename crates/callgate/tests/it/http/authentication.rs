//! Credentials.

use super::*;

#[tokio::test]
async fn an_invalid_token_is_401_and_the_body_explains_static_tokens() {
    for require_auth in [false, true] {
        let app = App::with(application(), options(|options| options.require_auth = require_auth));
        let reply = app.get("nobody", "/mcp/tools/list").await;
        assert_eq!(reply.error_code(), (401, "invalid_token".to_owned()));
        assert_eq!(
            reply.header("www-authenticate"),
            "Bearer realm=\"callgate\", error=\"invalid_token\", \
             error_description=\"The access token is invalid or expired\""
        );
        assert!(reply.text.contains("Authorization: Bearer "), "{}", reply.text);
    }
}

#[tokio::test]
async fn a_malformed_header_is_401_and_no_panic() {
    let app = App::new();
    for value in ["admin", "Bearer", "Bearer ", "Basic YTpi", "bearer  ", "Bearer \u{e9}"] {
        let request = request("GET", "", "/mcp/tools/list")
            .header("authorization", value.as_bytes())
            .body(Body::empty())
            .unwrap();
        assert_eq!(app.send(request).await.status, StatusCode::UNAUTHORIZED, "{value}");
    }
    let duplicate = request("GET", "", "/mcp/tools/list")
        .header("authorization", "Bearer admin")
        .header("authorization", "Bearer reader")
        .body(Body::empty())
        .unwrap();
    assert_eq!(app.send(duplicate).await.status, StatusCode::UNAUTHORIZED);
    let lower = request("GET", "", "/mcp/tools/list")
        .header("authorization", "bearer admin")
        .body(Body::empty())
        .unwrap();
    assert_eq!(app.send(lower).await.status, StatusCode::OK);
}

#[tokio::test]
async fn with_require_auth_everything_but_health_and_discovery_needs_a_token() {
    let app = App::with(application(), options(|options| options.require_auth = true));
    app.readiness.set_ready();
    for path in ["/mcp/tools/list", "/mcp/tools/describe?name=x", "/mcp/tools/x?query=1", "/other"]
    {
        let reply = app.get("", path).await;
        assert_eq!(reply.error_code(), (401, "unauthorized".to_owned()), "{path}");
        assert_eq!(reply.header("www-authenticate"), "Bearer realm=\"callgate\"");
    }
    let reply = app.invoke("", "open.echo", json!({})).await;
    assert_eq!(reply.status, StatusCode::UNAUTHORIZED, "401 and not 404");
    for path in ["/healthz", "/readyz", "/.well-known/mcp.json"] {
        assert_eq!(app.get("", path).await.status, StatusCode::OK, "{path}");
    }
    let options = request("OPTIONS", "", "/mcp/tools/list").body(Body::empty()).unwrap();
    assert_ne!(app.send(options).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(app.get("reader", "/mcp/tools/list").await.status, StatusCode::OK);
}

/// After a 401, clients search for OAuth. The result decides what they show to people.
#[tokio::test]
async fn oauth_discovery_is_404_and_registration_is_refused() {
    for require_auth in [false, true] {
        let app = App::with(application(), options(|options| options.require_auth = require_auth));
        for token in ["", "nobody", "reader"] {
            for path in [
                "/.well-known/oauth-protected-resource",
                "/.well-known/oauth-protected-resource/mcp",
                "/.well-known/oauth-authorization-server/mcp",
                "/.well-known/openid-configuration",
                "/mcp/.well-known/openid-configuration",
            ] {
                assert_eq!(app.get(token, path).await.status, StatusCode::NOT_FOUND, "{path}");
            }
            let reply = app.post(token, "/register", r#"{"redirect_uris":[]}"#).await;
            assert_eq!(reply.status, StatusCode::FORBIDDEN);
            assert_eq!(reply.json()["error"], "access_denied");
            let text = reply.json()["error_description"].to_string();
            assert!(text.starts_with("\"this server has no OAuth sign-in; "), "{text}");
        }
        assert_eq!(app.get("reader", "/register").await.status, StatusCode::METHOD_NOT_ALLOWED);
    }
}

#[tokio::test]
async fn without_require_auth_a_denied_anonymous_call_is_404() {
    let app = App::new();
    let reply = app.invoke("", "content.article.delete", json!({"id": 1})).await;
    assert_eq!(reply.error_code(), (404, "tool_not_found".to_owned()));
}

#[tokio::test]
async fn a_token_in_the_url_is_ignored() {
    let app = App::with(application(), options(|options| options.require_auth = true));
    let reply = app.get("", "/mcp/tools/list?token=admin&access_token=admin").await;
    assert_eq!(reply.status, StatusCode::UNAUTHORIZED);
}
