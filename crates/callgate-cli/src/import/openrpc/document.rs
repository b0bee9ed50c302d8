//! The document of a service that is running.

use callgate::forward::{AskError, Target};
use serde::Deserialize;

use crate::import::attempts::{Attempts, GET_DOCUMENT};
use crate::import::service::Service;

/// How a document is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Discover,
    /// Where the document is, the service need not be.
    Get,
}

impl Way {
    /// Returns the ways in which a service is asked for its document, the likelier one first.
    pub(crate) fn of(target: &Target) -> [Self; 2] {
        if is_file(target) { [Self::Get, Self::Discover] } else { [Self::Discover, Self::Get] }
    }

    /// Returns the document, or `None` if the service has none in this way.
    pub(crate) async fn document(
        self,
        service: &Service,
        attempts: &mut Attempts,
    ) -> anyhow::Result<Option<String>> {
        let (place, what) = (service.target(), self.name());
        match self.ask(service).await {
            Err(error) => attempts.failed(place, what, &error, None)?,
            Ok(text) => match check(&text) {
                Ok(()) => return Ok(Some(text)),
                Err(problem) => attempts.unfit(place, what, problem)?,
            },
        }
        Ok(None)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Discover => "POST rpc.discover",
            Self::Get => GET_DOCUMENT,
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
