//! Requests for the document of a running service.

use callgate::forward::Target;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::service::{Attempts, GET_DOCUMENT, Service};

/// A request for a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentRequest {
    /// Calls `rpc.discover`.
    Discover,
    /// Sends GET to the URL. The service itself may be at another URL.
    Get,
}

impl DocumentRequest {
    /// Returns the possible requests. The one that is more likely for the URL comes first.
    pub fn all(target: &Target) -> &'static [Self] {
        let path = target.path().to_ascii_lowercase();
        let is_file = [".json", ".openrpc", ".yaml", ".yml"].iter().any(|end| path.ends_with(end));
        match (target.is_websocket(), is_file) {
            // Over a WebSocket, only calls can be sent.
            (true, _) => &[Self::Discover],
            (false, true) => &[Self::Get, Self::Discover],
            (false, false) => &[Self::Discover, Self::Get],
        }
    }

    /// Returns the document, or `None` if the service does not have it.
    pub(crate) async fn send(
        self,
        service: &Service,
        attempts: &mut Attempts,
    ) -> anyhow::Result<Option<String>> {
        let (what, reply) = match self {
            Self::Get => (GET_DOCUMENT.to_owned(), service.get(None).await),
            Self::Discover => {
                let reply = service.ask("rpc.discover", &[]).await;
                let name = service.request_name("rpc.discover");
                (name, reply.map(|document| document.get().to_owned()))
            }
        };
        let read = |text: String| check(&text).map(|()| text);
        attempts.read(service.target(), &what, reply, None, read)
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
    let document = super::parse(text).unwrap_or_default();
    // The reader reports an OpenAPI document with an explanation.
    if super::version(&document).is_ok() || super::is_openapi(&document) {
        return Ok(());
    }
    Err(if serde_json::from_str::<IgnoredAny>(text).is_ok() {
        "the reply is JSON, but not an OpenRPC document"
    } else {
        "the reply is not JSON"
    })
}
