//! Descriptions of methods that a running service may offer.

use anyhow::Context as _;
use callgate::forward::Target;

use crate::drupal::Module;
use crate::openrpc::ReadOptions;
use crate::service::{Attempts, GET_DOCUMENT, Service};
use crate::source::Source;
use crate::{drupal, introspect, openrpc};

/// A way in which a service may describe its methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Description {
    /// The OpenRPC document that `rpc.discover` returns.
    Discover,
    /// An OpenRPC document at the given URL. The service itself may be at another URL.
    Document,
    /// The reply to `system.listMethods`.
    Introspection,
    /// The list of methods or tools that a module of Drupal provides.
    Drupal(Module),
}

impl Description {
    /// Returns the possible OpenRPC documents of a service. The one that is more likely for the URL comes first.
    pub fn openrpc(target: &Target) -> &'static [Self] {
        let path = target.path().to_ascii_lowercase();
        let is_file = [".json", ".openrpc", ".yaml", ".yml"].iter().any(|end| path.ends_with(end));
        match (target.is_websocket(), is_file) {
            // Over a WebSocket, only calls can be sent.
            (true, _) => &[Self::Discover],
            (false, true) => &[Self::Document, Self::Discover],
            (false, false) => &[Self::Discover, Self::Document],
        }
    }

    /// Returns the name of the description, and the arguments of `callgate import` that read it.
    pub fn name_and_arguments(self) -> (&'static str, &'static str) {
        match self {
            Self::Discover => ("rpc.discover", "openrpc"),
            Self::Document => ("a document at its URL", "openrpc"),
            Self::Introspection => ("system.listMethods", "introspect"),
            Self::Drupal(Module::Mcp) => ("Drupal's module jsonrpc_mcp", "drupal"),
            Self::Drupal(Module::Discovery) => {
                ("Drupal's module jsonrpc_discovery", "drupal --from discovery")
            }
        }
    }

    /// Returns the problem and the hint for a service that does not have this description.
    fn problem_and_hint(self) -> (&'static str, &'static str) {
        match self {
            Self::Discover | Self::Document => (
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
            Self::Discover | Self::Document => {
                let checked = |text: String| openrpc::check(&text).map(|()| text);
                let target = service.target();
                let document = if self == Self::Discover {
                    attempts.request(service, "rpc.discover", checked).await?
                } else {
                    let reply = service.get(None).await;
                    attempts.parse_reply(target, GET_DOCUMENT, reply, None, checked)?
                };
                let Some(document) = document else { return Ok(None) };
                let source = openrpc::read(&document, options);
                source.with_context(|| format!("`{target}`")).map(Some)
            }
            Self::Introspection => introspect::read(service, options.upstream, attempts).await,
            Self::Drupal(module) => drupal::read(service, module, options.upstream, attempts).await,
        }
    }

    /// Sets the keys that the upstream's configuration should have.
    async fn add_keys(self, service: &Service, source: &mut Source) -> anyhow::Result<()> {
        source.upstream_keys = match self {
            // The document may be on a different server than the service.
            Self::Document => None,
            Self::Discover | Self::Introspection => Some(Vec::new()),
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
            (problem, hint) = description.problem_and_hint();
        }
        Err(attempts.into_error(&format!("{} {problem}", service.target()), hint))
    }
}
