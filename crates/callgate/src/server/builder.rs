//! Putting a [`Callgate`] together.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::Callgate;
#[cfg(feature = "macros")]
use super::plugin::Plugin;
use crate::access::{Requirement, Section};
use crate::catalog::{Catalog, CatalogBuilder};
use crate::gateway::Gateway;
use crate::gateway::settings::Settings;
#[cfg(feature = "macros")]
use crate::mcp::features::prompt_function::{LocalPrompts, PromptFunction};
#[cfg(feature = "macros")]
use crate::mcp::features::resource_function::{LocalResources, ResourceFunction};
use crate::mcp::{
    Complete, EventStore, Mcp, Prompts, Resources, Services, SessionKey, Sessions, TaskStore,
};
use crate::model::method::{InvalidMethod, LOCAL, Method};
use crate::model::tool_name::plain;
use crate::model::types::Types;
use crate::upstream::DEFAULT_CALL_TIMEOUT;
use crate::upstream::Upstream;
use crate::upstream::budget::DEFAULT_IN_FLIGHT_BYTES;
use crate::upstream::local::{Local, MethodFunction};

/// What is to be served, and how.
#[derive(Debug, Default)]
#[must_use]
pub struct Builder {
    local: Local,
    upstreams: Vec<(Arc<str>, Arc<dyn Upstream>)>,
    upstream_methods: Vec<Method>,
    invalid: Vec<InvalidMethod>,
    settings: Settings,
    call_timeout: Option<Duration>,
    max_in_flight_bytes: Option<usize>,
    sessions: Option<Sessions>,
    #[cfg(feature = "macros")]
    prompt_functions: Vec<PromptFunction>,
    #[cfg(feature = "macros")]
    local_resources: LocalResources,
    services: Services,
    #[cfg(feature = "http")]
    http: super::http::HttpSettings,
}

/// Why there is nothing to serve.
#[derive(Debug, Error)]
pub enum BuildError {
    /// Definitions that are wrong, all of them.
    #[error("{} method(s) cannot be served: {}", .0.len(), sentences(.0))]
    Methods(Vec<InvalidMethod>),
    /// Two prompts, two resources or two upstreams are called the same.
    #[error("there are two {0} `{1}`")]
    Duplicate(&'static str, String),
    /// A key for sessions could not be made.
    #[error("the system has no random numbers")]
    Random(#[from] getrandom::Error),
}

fn sentences(invalid: &[InvalidMethod]) -> String {
    invalid.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl Builder {
    /// What clients are told that the server is called; `callgate` unless said.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.server_name = name.into();
        self
    }

    /// The version that clients are told.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.settings.server_version = version.into();
        self
    }

    /// All settings at once, in place of those that were said before.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Adds functions: `methods![get_user, delete_user]`.
    pub fn methods(mut self, functions: impl IntoIterator<Item = MethodFunction>) -> Self {
        for function in functions {
            if let Err(invalid) = self.local.add(function) {
                self.invalid.push(invalid);
            }
        }
        self
    }

    /// Adds functions whose methods are written by hand.
    pub fn local(mut self, local: Local) -> Self {
        self.local.extend(local);
        self
    }

    /// Adds what runs methods elsewhere, such as a [`Forward`](crate::upstream::forward::Forward), under the name
    /// that methods know it by.
    pub fn upstream(self, name: impl Into<Arc<str>>, upstream: impl Upstream + 'static) -> Self {
        self.shared_upstream(name, Arc::new(upstream))
    }

    /// The same, with an upstream that is used elsewhere too.
    pub fn shared_upstream(
        mut self,
        name: impl Into<Arc<str>>,
        upstream: Arc<dyn Upstream>,
    ) -> Self {
        self.upstreams.push((name.into(), upstream));
        self
    }

    /// Adds methods that run on such an upstream, which each of them names.
    pub fn upstream_methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.upstream_methods.extend(methods);
        self
    }

    /// Adds all that a type offers, with this value as its state.
    #[cfg(feature = "macros")]
    pub fn plugin(self, plugin: impl Plugin) -> Self {
        self.shared_plugin(Arc::new(plugin))
    }

    /// The same, for a value that others have too.
    #[cfg(feature = "macros")]
    pub fn shared_plugin(self, plugin: Arc<impl Plugin>) -> Self {
        let items = plugin.items();
        self.methods(items.methods).prompts(items.prompts).resources(items.resources)
    }

    /// Adds prompts: `prompts![review]`.
    #[cfg(feature = "macros")]
    pub fn prompts(mut self, prompts: impl IntoIterator<Item = PromptFunction>) -> Self {
        self.prompt_functions.extend(prompts);
        self
    }

    /// Adds resources: `resources![stock, product]`.
    #[cfg(feature = "macros")]
    pub fn resources(mut self, resources: impl IntoIterator<Item = ResourceFunction>) -> Self {
        self.local_resources.functions.extend(resources);
        self
    }

    /// Lets clients be told when a resource changes
    /// ([`Mcp::resource_updated`](crate::mcp::Mcp::resource_updated)).
    #[cfg(feature = "macros")]
    pub fn resource_subscriptions(mut self) -> Self {
        self.local_resources.can_subscribe = true;
        self
    }

    /// Offers the prompts of a type of one's own, in place of functions.
    pub fn prompts_of(mut self, prompts: impl Prompts + 'static) -> Self {
        self.services.prompts = Some(Arc::new(prompts));
        self
    }

    /// Offers the resources of a type of one's own, in place of functions.
    pub fn resources_of(mut self, resources: impl Resources + 'static) -> Self {
        self.services.resources = Some(Arc::new(resources));
        self
    }

    /// Offers completion of the arguments of prompts and resources.
    pub fn completion(mut self, completion: impl Complete + 'static) -> Self {
        self.services.completion = Some(Arc::new(completion));
        self
    }

    /// Lets methods run on as tasks, which are kept here.
    pub fn tasks(mut self, tasks: impl TaskStore + 'static) -> Self {
        self.services.tasks = Some(Arc::new(tasks));
        self
    }

    /// Keeps what is said on the streams of legacy clients.
    pub fn event_store(mut self, store: impl EventStore + 'static) -> Self {
        self.services.event_store = Some(Arc::new(store));
        self
    }

    /// How long a call may take; 30 seconds unless said.
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = Some(timeout);
        self
    }

    /// How many bytes the results of all calls may have together, from when they are read until the replies
    /// are sent; 256 MiB unless said. Results up to 64 KiB are not counted.
    pub fn max_in_flight_bytes(mut self, bytes: usize) -> Self {
        self.max_in_flight_bytes = Some(bytes);
        self
    }

    /// The legacy sessions: with a key of your own they outlive the process, and are good on each of
    /// several servers. Unless said, there is a new key on each start.
    pub fn sessions(mut self, sessions: Sessions) -> Self {
        self.sessions = Some(sessions);
        self
    }

    /// Checks everything that was said.
    ///
    /// # Errors
    ///
    /// When definitions are wrong: all methods of which that is so are named.
    pub fn build(self) -> Result<Callgate, BuildError> {
        let mut catalog = CatalogBuilder::new(self.settings.tools_prefix.clone(), None);
        let methods = self.local.methods().iter().chain(&self.upstream_methods);
        let methods: Arc<[Method]> = methods.cloned().collect();
        for method in &*methods {
            catalog.add(method.clone(), 0, &Types::default(), []);
        }
        let mut catalog = catalog.finish();
        let mut invalid = self.invalid;
        invalid.extend(catalog.take_quarantined());
        if !invalid.is_empty() {
            return Err(BuildError::Methods(invalid));
        }
        warn(&catalog, &methods);
        let needs = methods.iter().map(Method::requirement);
        #[cfg(feature = "macros")]
        let needs = needs
            .chain(self.prompt_functions.iter().map(PromptFunction::requirement))
            .chain(self.local_resources.functions.iter().map(ResourceFunction::requirement));
        let sections = needs.flat_map(Requirement::needs).map(|(section, _)| section.clone());
        let sections: BTreeSet<Section> = sections.collect();
        let local: (Arc<str>, Arc<dyn Upstream>) = (LOCAL.into(), Arc::new(self.local));
        let upstreams: Vec<_> = self.upstreams.into_iter().chain([local]).collect();
        if let Some(twice) = first_twice(upstreams.iter().map(|(name, _)| name.to_string())) {
            return Err(BuildError::Duplicate("upstreams", twice));
        }
        let gateway = Gateway::new(upstreams)
            .call_timeout(self.call_timeout.unwrap_or(DEFAULT_CALL_TIMEOUT))
            .max_in_flight_bytes(self.max_in_flight_bytes.unwrap_or(DEFAULT_IN_FLIGHT_BYTES));
        gateway.set_settings(Arc::new(self.settings));
        gateway.set_catalog(Arc::new(catalog));
        let sessions = match self.sessions {
            Some(sessions) => sessions,
            None => Sessions::new([SessionKey::generate()?]),
        };
        let services = self.services;
        #[cfg(feature = "macros")]
        let services = Services {
            prompts: services.prompts.or(local_prompts(self.prompt_functions)?),
            resources: services.resources.or(local_resources(self.local_resources)?),
            ..services
        };
        let mcp = Mcp::with_services(Arc::new(gateway), sessions, services);
        #[cfg(feature = "http")]
        self.http.readiness.set_ready();
        Ok(Callgate {
            mcp: Arc::new(mcp),
            methods,
            sections: sections.into_iter().collect(),
            #[cfg(feature = "http")]
            http: self.http,
        })
    }
}

/// Says what would surprise the author.
fn warn(catalog: &Catalog, methods: &[Method]) {
    for method in methods {
        let id = method.id();
        if method.description.is_empty() {
            tracing::warn!("method `{id}` has no description, by which agents decide");
        }
        let Some(entry) = catalog.by_id(id.as_str()) else { continue };
        let wanted = method.tool_name.clone().unwrap_or_else(|| plain(id.as_str()));
        let name = catalog.prefix().strip(entry.name());
        if name != wanted {
            tracing::warn!(
                "method `{id}` is the tool `{name}`, since `{wanted}` is taken or too long; say `tool_name`"
            );
        }
        for finding in entry.findings() {
            tracing::warn!("method `{id}`: {finding}");
        }
    }
}

#[cfg(feature = "macros")]
fn local_prompts(functions: Vec<PromptFunction>) -> Result<Option<Arc<dyn Prompts>>, BuildError> {
    let names = functions.iter().map(|function| function.name().to_owned());
    if let Some(twice) = first_twice(names) {
        return Err(BuildError::Duplicate("prompts", twice));
    }
    Ok((!functions.is_empty()).then(|| Arc::new(LocalPrompts(functions)) as _))
}

#[cfg(feature = "macros")]
fn local_resources(local: LocalResources) -> Result<Option<Arc<dyn Resources>>, BuildError> {
    if let Some(twice) = first_twice(local.functions.iter().map(ResourceFunction::form)) {
        return Err(BuildError::Duplicate("resources", twice));
    }
    Ok((!local.functions.is_empty()).then(|| Arc::new(local) as _))
}

fn first_twice(mut names: impl Iterator<Item = String>) -> Option<String> {
    let mut seen = std::collections::HashSet::new();
    names.find(|name| !seen.insert(name.clone()))
}

#[cfg(feature = "http")]
impl Builder {
    /// Who callers are, by their credentials.
    pub fn authenticate(
        mut self,
        authenticate: impl crate::transport::http::Authenticate + 'static,
    ) -> Self {
        self.http.authenticate = Arc::new(authenticate);
        self
    }

    /// Refuses everything but health and discovery without a credential.
    pub fn require_auth(mut self) -> Self {
        self.http.options.require_auth = true;
        self
    }

    /// Lets [`serve`](Callgate::serve) listen where other machines can reach it although callers need no
    /// credential.
    pub fn allow_anonymous(mut self) -> Self {
        self.http.allow_anonymous = true;
        self
    }

    /// Names of this server, beside those of this machine and addresses; `*` is any.
    pub fn allowed_hosts(mut self, hosts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.http.options.allowed_hosts.extend(hosts.into_iter().map(Into::into));
        self
    }

    /// Pages that may call, beside those of this machine and this server's own: `https://…`, or `*`.
    pub fn allowed_origins(mut self, origins: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.http.options.allowed_origins.extend(origins.into_iter().map(Into::into));
        self
    }

    /// All limits and permissions of HTTP at once, in place of those that were said before; but where
    /// [`require_auth`](Self::require_auth) was said, a credential stays required.
    pub fn http_options(mut self, options: crate::transport::http::HttpOptions) -> Self {
        let require_auth = self.http.options.require_auth || options.require_auth;
        self.http.options = crate::transport::http::HttpOptions { require_auth, ..options };
        self
    }

    /// What [`serve`](Callgate::serve) allows.
    pub fn server_limits(mut self, limits: crate::transport::http::ServerLimits) -> Self {
        self.http.limits = limits;
        self
    }
}
