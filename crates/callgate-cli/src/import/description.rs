//! The descriptions that a running service may have of its methods.

use anyhow::Context as _;

use super::openrpc::{Reading, Way};
use super::{Attempts, Service, Source, UpstreamKeys, drupal, introspect, openrpc};

/// A description of a service's methods that the service itself gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Description {
    /// An OpenRPC document.
    OpenRpc(Way),
    /// `system.listMethods`.
    Introspection,
    /// A module of Drupal.
    Drupal(drupal::From),
}

impl Description {
    /// Returns what it is called, and the arguments of `callgate import` that read it.
    pub(crate) fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::OpenRpc(Way::Discover) => ("rpc.discover", "openrpc"),
            Self::OpenRpc(Way::Get) => ("a document at its URL", "openrpc"),
            Self::Introspection => ("system.listMethods", "introspect"),
            Self::Drupal(drupal::From::Tools) => ("Drupal's module jsonrpc_mcp", "drupal"),
            Self::Drupal(drupal::From::Discovery) => {
                ("Drupal's module jsonrpc_discovery", "drupal --from discovery")
            }
        }
    }

    /// Returns what is wrong with a service that does not have it, and what to do about it.
    pub(crate) fn absence(self) -> (&'static str, &'static str) {
        match self {
            Self::OpenRpc(_) => ("gives no OpenRPC document", "a document can also be a file"),
            Self::Introspection => (
                "does not list its methods",
                "an OpenRPC document, or a manifest that you write, can be imported too",
            ),
            Self::Drupal(drupal::From::Tools) => (
                "does not have the module `jsonrpc_mcp`",
                "is that the URL of the site? If it has the module `jsonrpc_discovery` alone, `--from \
                 discovery` reads all methods that the user who asks may use, marked as tools or not",
            ),
            Self::Drupal(drupal::From::Discovery) => (
                "does not have the module `jsonrpc_discovery`",
                "it is a part of the module `jsonrpc`, and has to be enabled",
            ),
        }
    }

    /// Reads the description of a service; `None` if the service does not have it.
    pub(crate) async fn read(
        self,
        service: &Service,
        reading: Reading<'_>,
        attempts: &mut Attempts,
    ) -> anyhow::Result<Option<Source>> {
        match self {
            Self::OpenRpc(way) => {
                let Some(document) = way.document(service, attempts).await? else {
                    return Ok(None);
                };
                let place = || format!("`{}`", service.target());
                openrpc::read(&document, reading).with_context(place).map(Some)
            }
            Self::Introspection => {
                let listed = introspect::ask(service, attempts).await?;
                Ok(listed.map(|listed| introspect::read(listed, reading.upstream)))
            }
            Self::Drupal(from) => drupal::read(service, from, reading.upstream, attempts).await,
        }
    }

    /// Adds to a source what the configuration needs for calls to reach the service.
    pub(crate) async fn add_keys(
        self,
        service: &Service,
        source: &mut Source,
    ) -> anyhow::Result<()> {
        let keys = match self {
            // Where the document is, the service need not be.
            Self::OpenRpc(Way::Get) => return Ok(()),
            Self::OpenRpc(Way::Discover) | Self::Introspection => Vec::new(),
            Self::Drupal(from) => drupal::upstream_keys(service, from, &mut source.notes).await?,
        };
        source.notes.extend(service.notes(&keys));
        let name = service.row_name().filter(|_| !keys.is_empty());
        source.upstream_keys = name.map(|name| UpstreamKeys { name: name.to_owned(), keys });
        Ok(())
    }
}
