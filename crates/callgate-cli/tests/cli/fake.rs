//! A server of ours that answers as a test says, for what no real one does.

use std::ops::Deref;

use callgate_throwaway::fake;
use serde_json::{Value, json};

pub(crate) use callgate_throwaway::fake::{Answer, Seen};

/// A server with a thread of its own, until it is dropped.
pub(crate) struct Fake {
    fake: fake::Fake,
    _runtime: tokio::runtime::Runtime,
}

impl Deref for Fake {
    type Target = fake::Fake;

    fn deref(&self) -> &fake::Fake {
        &self.fake
    }
}

impl Fake {
    /// Answers each request with a status and a body of JSON, or with headers of its own.
    pub(crate) fn start<A: Into<Answer>>(
        script: impl Fn(&Seen) -> A + Send + Sync + 'static,
    ) -> Self {
        let runtime = super::front::runtime();
        let fake = runtime.block_on(fake::Fake::start(script));
        Self { fake, _runtime: runtime }
    }

    /// A JSON-RPC service: what a method gives, or `None` where there is no such method. A GET is 405.
    pub(crate) fn service(
        answer: impl Fn(&str, &Value) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        Self::start(move |seen| {
            if seen.verb() == "GET" {
                return Answer::from((405, String::new()));
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
