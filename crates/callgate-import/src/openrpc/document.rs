//! The document of a service that is running.

use callgate::forward::Target;
use serde::Deserialize;

use crate::service::{Attempts, GET_DOCUMENT, Service};

/// How a document is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// By `rpc.discover`.
    Discover,
    /// By GET at the URL. The service itself may be elsewhere.
    Get,
}

impl Way {
    /// Returns the ways in which a service is asked for its document, the likelier one first.
    pub fn of(target: &Target) -> [Self; 2] {
        if is_file(target) { [Self::Get, Self::Discover] } else { [Self::Discover, Self::Get] }
    }

    /// Returns the document, or `None` if the service has none in this way.
    pub(crate) async fn document(
        self,
        service: &Service,
        attempts: &mut Attempts,
    ) -> anyhow::Result<Option<String>> {
        let (what, answer) = match self {
            Self::Get => (GET_DOCUMENT, service.get(None).await),
            Self::Discover => {
                let answer = service.ask("rpc.discover", &[]).await;
                ("POST rpc.discover", answer.map(|document| document.get().to_owned()))
            }
        };
        let read = |text: String| check(&text).map(|()| text);
        attempts.read(service.target(), what, answer, None, read)
    }
}

/// A URL that a service would hardly have.
fn is_file(target: &Target) -> bool {
    let path = target.path().to_ascii_lowercase();
    [".json", ".openrpc"].iter().any(|end| path.ends_with(end))
}

/// Whether it is an OpenRPC document.
fn check(text: &str) -> Result<(), &'static str> {
    #[derive(Deserialize)]
    struct Head {
        #[expect(dead_code, reason = "only that it is there counts")]
        openrpc: String,
    }
    match serde_json::from_str::<Head>(text.trim_start_matches('\u{feff}')) {
        Ok(_) => Ok(()),
        Err(error) if error.is_data() => Err("the answer is JSON, but no OpenRPC document"),
        Err(_) => Err("the answer is not JSON"),
    }
}
