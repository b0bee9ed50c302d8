//! Requests for the document of a running service.

use callgate::forward::Target;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::service::{Attempts, GET_DOCUMENT, Service};

/// A request for a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentRequest {
    /// Calls `rpc.discover`.
    Discover,
    /// GET of the URL. The service itself may be elsewhere.
    Get,
}

impl DocumentRequest {
    /// Returns both requests. The one that is more likely to succeed for the URL is first.
    pub fn both(target: &Target) -> [Self; 2] {
        let path = target.path().to_ascii_lowercase();
        if [".json", ".openrpc", ".yaml", ".yml"].iter().any(|end| path.ends_with(end)) {
            return [Self::Get, Self::Discover];
        }
        [Self::Discover, Self::Get]
    }

    /// Returns the document, or `None` if the service does not have it.
    pub(crate) async fn send(
        self,
        service: &Service,
        attempts: &mut Attempts,
    ) -> anyhow::Result<Option<String>> {
        let (what, reply) = match self {
            Self::Get => (GET_DOCUMENT, service.get(None).await),
            Self::Discover => {
                let reply = service.ask("rpc.discover", &[]).await;
                ("POST rpc.discover", reply.map(|document| document.get().to_owned()))
            }
        };
        let read = |text: String| check(&text).map(|()| text);
        attempts.read(service.target(), what, reply, None, read)
    }
}

fn check(text: &str) -> Result<(), &'static str> {
    #[derive(Deserialize)]
    struct Head {
        #[serde(rename = "openrpc")]
        _version: String,
    }
    let text = text.trim_start_matches('\u{feff}');
    if serde_json::from_str::<Head>(text).is_ok() {
        return Ok(());
    }
    let is_json = serde_json::from_str::<IgnoredAny>(text).is_ok();
    let is_yaml = || {
        let document = super::parse(text).ok();
        document.is_some_and(|document| document.get("openrpc").is_some_and(Value::is_string))
    };
    if !is_json && is_yaml() {
        return Ok(());
    }
    Err(if is_json {
        "the reply is JSON, but not an OpenRPC document"
    } else {
        "the reply is not JSON"
    })
}
