//! The document of a service that is running.

use callgate::forward::{AskError, Target};
use serde::Deserialize;

use crate::import::service::{Service, Tried};

/// What a service answers to `rpc.discover`, or has at its URL, and which of them it was.
pub(crate) async fn document(service: &Service, tried: &mut Tried) -> Option<(Way, String)> {
    let ways = if is_file(service.target()) {
        [Way::Get, Way::Discover]
    } else {
        [Way::Discover, Way::Get]
    };
    for way in ways {
        if let Some(text) = way.document(service, tried).await {
            return Some((way, text));
        }
    }
    None
}

/// How a document is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Discover,
    /// Where the document is, the service need not be.
    Get,
}

impl Way {
    /// The document, unless the service is not there at all.
    pub(crate) async fn document(self, service: &Service, tried: &mut Tried) -> Option<String> {
        if tried.is_over() {
            return None;
        }
        match self.ask(service).await {
            Err(error) => tried.failed(self.name(), &error),
            Ok(text) => match check(&text) {
                Ok(()) => return Some(text),
                Err(problem) => tried.other(self.name(), problem),
            },
        }
        None
    }

    fn name(self) -> &'static str {
        match self {
            Self::Discover => "POST rpc.discover",
            Self::Get => "GET",
        }
    }

    async fn ask(self, service: &Service) -> Result<String, AskError> {
        match self {
            Self::Discover => Ok(service.ask("rpc.discover", &[]).await?.get().to_owned()),
            Self::Get => service.get().await,
        }
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
