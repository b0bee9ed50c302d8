//! A fake service for tests without an async runtime.

use std::ops::Deref;

use callgate_test_support::fake_service;
use serde_json::{Value, json};

pub(crate) use callgate_test_support::fake_service::{FakeResponse, ReceivedRequest};

/// A fake service with its own runtime. It stops when it is dropped.
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
    /// Starts a service. `handler` returns the reply to each request.
    pub(crate) fn start<A: Into<FakeResponse>>(
        handler: impl Fn(&ReceivedRequest) -> A + Send + Sync + 'static,
    ) -> Self {
        let runtime = super::reverse_proxy::runtime();
        let fake = runtime.block_on(fake_service::FakeService::start(handler));
        Self { fake, _runtime: runtime }
    }

    /// Starts a JSON-RPC service. `result` returns the result of a method, or `None` if the method
    /// does not exist. The reply to GET is 405.
    pub(crate) fn json_rpc(
        result: impl Fn(&str, &Value) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        Self::start(move |request| {
            if request.http_method() == "GET" {
                return FakeResponse::from((405, String::new()));
            }
            match result(request.method(), &request.body["params"]) {
                Some(result) => request.result(result),
                None => request.error(200, json!({"code": -32601, "message": "Method not found"})),
            }
        })
    }

    /// Replaces the port in a text.
    pub(crate) fn mask_port(&self, text: &str) -> String {
        text.replace(&self.address.to_string(), "127.0.0.1:[port]")
    }
}
