//! Every server passes the checks of the load generator.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use callgate_bench::model::{self, TOOLS};
use callgate_bench::suite::Suite;
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

async fn check_every_case(router: &Router) {
    for case in Suite::Server.cases() {
        for request in case.requests().iter().take(3) {
            let mut http_request = Request::post("/mcp").header("host", "127.0.0.1");
            for (name, value) in &request.headers {
                http_request = http_request.header(*name, value);
            }
            let http_request = http_request.body(Body::from(request.body.clone())).unwrap();
            let response = router.clone().oneshot(http_request).await.unwrap();
            let status = response.status();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            let text = String::from_utf8_lossy(&body);
            assert_eq!(status, StatusCode::OK, "{case}: {text}");
            assert_eq!(case.problem(request, &body), None, "{case}: {text}");
            assert!(text.contains(request.expected), "{case}: {text}");
        }
    }
}

#[tokio::test]
async fn bare_answers_every_case() {
    check_every_case(&crate::bare::router(&model::tools(TOOLS)).unwrap()).await;
}

#[tokio::test]
async fn rmcp_answers_every_case() {
    check_every_case(&crate::with_rmcp::router(&model::tools(TOOLS)).unwrap()).await;
}
