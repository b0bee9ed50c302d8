//! A server of ours that answers as a test says, for what no real one does.

use std::ops::Deref;

use callgate_test_support::fake_service;
use serde_json::{Value, json};

pub(crate) use callgate_test_support::fake_service::{FakeResponse, ReceivedRequest};

/// A server with a thread of its own, until it is dropped.
pub(crate) struct FakeService {
    fake: fake_service::FakeService,
    _runtime: tokio::runtime::Runtime,
}

impl Deref for FakeService {
    type Target = fake_service::FakeService;

    fn deref(&self) -> &fake_service::FakeService {
        &self.fake
    }
}

impl FakeService {
    /// Answers each request with a status and a body of JSON, or with headers of its own.
    pub(crate) fn start<A: Into<FakeResponse>>(
        script: impl Fn(&ReceivedRequest) -> A + Send + Sync + 'static,
    ) -> Self {
        let runtime = super::front::runtime();
        let fake = runtime.block_on(fake_service::FakeService::start(script));
        Self { fake, _runtime: runtime }
    }

    /// A JSON-RPC service: what a method gives, or `None` where there is no such method. A GET is 405.
    pub(crate) fn service(
        answer: impl Fn(&str, &Value) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        Self::start(move |seen| {
            if seen.http_method() == "GET" {
                return FakeResponse::from((405, String::new()));
            }
            match answer(seen.method(), &seen.body["params"]) {
                Some(result) => seen.result(result),
                None => seen.error(200, json!({"code": -32601, "message": "Method not found"})),
            }
        })
    }

    /// What is printed, without the port.
    pub(crate) fn hide(&self, text: &str) -> String {
        text.replace(&self.address.to_string(), "127.0.0.1:[port]")
    }
}
