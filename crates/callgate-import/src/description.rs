//! Descriptions of methods that a running service may offer.

use anyhow::Context as _;

use crate::drupal::Module;
use crate::openrpc::{DocumentRequest, ReadOptions};
use crate::service::{Attempts, Service};
use crate::source::Source;
use crate::{drupal, introspect, openrpc};

/// A description of methods that a service offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Description {
    /// An OpenRPC document.
    OpenRpc(DocumentRequest),
    /// The reply to `system.listMethods`.
    Introspection,
    /// The list of a module of Drupal.
    Drupal(Module),
}

impl Description {
    /// Returns the name of the description, and the arguments of `callgate import` that read it.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::OpenRpc(DocumentRequest::Discover) => ("rpc.discover", "openrpc"),
            Self::OpenRpc(DocumentRequest::Get) => ("a document at its URL", "openrpc"),
            Self::Introspection => ("system.listMethods", "introspect"),
            Self::Drupal(Module::Mcp) => ("Drupal's module jsonrpc_mcp", "drupal"),
            Self::Drupal(Module::Discovery) => {
                ("Drupal's module jsonrpc_discovery", "drupal --from discovery")
            }
        }
    }

    /// Returns the problem and the hint for a service that does not have this description.
    fn absence(self) -> (&'static str, &'static str) {
        match self {
            Self::OpenRpc(_) => (
                "offers no OpenRPC document",
                "an OpenRPC document can also be imported from a file; `callgate import introspect` reads \
                 `system.listMethods`",
            ),
            Self::Introspection => {
                ("does not list its methods", "import an OpenRPC document or a manifest instead")
            }
            Self::Drupal(Module::Mcp) => (
                "does not have the module `jsonrpc_mcp`",
                "check the URL of the site; if the site has only the module `jsonrpc_discovery`, `--from discovery` \
                 reads all methods that the user may use, marked as tools or not",
            ),
            Self::Drupal(Module::Discovery) => (
                "does not have the module `jsonrpc_discovery`",
                "enable this module, which is a part of the module `jsonrpc`",
            ),
        }
    }

    /// Reads the description. Returns `None` if the service does not have it.
    pub async fn read(
        self,
        service: &Service,
        options: ReadOptions<'_>,
        attempts: &mut Attempts,
    ) -> anyhow::Result<Option<Source>> {
        match self {
            Self::OpenRpc(request) => {
                let Some(document) = request.send(service, attempts).await? else {
                    return Ok(None);
                };
                let place = || format!("`{}`", service.target());
                openrpc::read(&document, options).with_context(place).map(Some)
            }
            Self::Introspection => introspect::read(service, options.upstream, attempts).await,
            Self::Drupal(module) => drupal::read(service, module, options.upstream, attempts).await,
        }
    }

    /// Sets the keys that the upstream's configuration should have.
    async fn add_keys(self, service: &Service, source: &mut Source) -> anyhow::Result<()> {
        source.upstream_keys = match self {
            // The document may be on a different server than the service.
            Self::OpenRpc(DocumentRequest::Get) => None,
            Self::OpenRpc(DocumentRequest::Discover) | Self::Introspection => Some(Vec::new()),
            Self::Drupal(module) => {
                Some(drupal::upstream_keys(service, module, &mut source.notes).await?)
            }
        };
        Ok(())
    }

    /// Reads the first of these descriptions that the service has.
    pub async fn read_first(
        descriptions: &[Self],
        service: &Service,
        options: ReadOptions<'_>,
    ) -> anyhow::Result<Source> {
        let mut attempts = Attempts::default();
        let (mut problem, mut hint) = ("", "");
        for description in descriptions {
            if let Some(mut source) = description.read(service, options, &mut attempts).await? {
                description.add_keys(service, &mut source).await?;
                return Ok(source);
            }
            (problem, hint) = description.absence();
        }
        Err(attempts.into_error(&format!("{} {problem}", service.target()), hint))
    }
}
