//! Configuration of a [`Callgate`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::Callgate;
#[cfg(feature = "macros")]
use super::plugin::Plugin;
use crate::access::{RateLimits, Requirement, Section};
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
use crate::model::tool_name::plain_name;
use crate::model::types::Types;
use crate::upstream::DEFAULT_CALL_TIMEOUT;
use crate::upstream::Upstream;
use crate::upstream::local::{Local, MethodFunction};
use crate::upstream::memory_budget::DEFAULT_IN_FLIGHT_BYTES;

/// Builder of a [`Callgate`].
///
/// ```
/// use std::time::Duration;
/// use callgate::{Callgate, method, methods};
///
/// /// Adds two numbers.
/// #[method(read_only)]
/// fn add(a: i64, b: i64) -> i64 {
///     a + b
/// }
///
/// let server = Callgate::builder()
///     .methods(methods![add])
///     .call_timeout(Duration::from_secs(5))
///     .build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    rate_limits: RateLimits,
    sessions: Option<Sessions>,
    #[cfg(feature = "macros")]
    prompt_functions: Vec<PromptFunction>,
    #[cfg(feature = "macros")]
    local_resources: LocalResources,
    services: Services,
    #[cfg(feature = "http")]
    http: super::http::HttpSettings,
}

/// The server could not be built.
///
/// ```
/// use callgate::{BuildError, Callgate, method, methods};
///
/// /// Returns the current stock.
/// #[method(id = "stock.get", read_only)]
/// fn stock() -> i64 {
///     7
/// }
///
/// let duplicate = Callgate::builder().methods(methods![stock]).methods(methods![stock]).build();
/// let Err(BuildError::Methods(invalid)) = duplicate else { panic!() };
/// assert_eq!(invalid.len(), 1);
/// ```
#[derive(Debug, Error)]
pub enum BuildError {
    /// All invalid methods.
    #[error("{} method(s) cannot be served: {}", .0.len(), join_messages(.0))]
    Methods(Vec<InvalidMethod>),
    /// Two prompts, resources or upstreams have the same name.
    #[error("two {0} are named `{1}`")]
    Duplicate(&'static str, String),
    /// The operating system returned no random numbers for a session key.
    #[error("the operating system returned no random numbers")]
    Random(#[from] getrandom::Error),
}

fn join_messages(invalid: &[InvalidMethod]) -> String {
    invalid.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl Builder {
    /// Sets the server's name. Defaults to `callgate`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.server_name = name.into();
        self
    }

    /// Sets the server's version.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.settings.server_version = version.into();
        self
    }

    /// Replaces all settings.
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

    /// Adds functions for which the application defines the [`Method`] itself, without `#[method]`.
    pub fn local(mut self, local: Local) -> Self {
        self.local.extend(local);
        self
    }

    /// Adds an upstream, such as a [`Forward`](crate::upstream::forward::Forward). Methods refer to it by this name.
    pub fn upstream(self, name: impl Into<Arc<str>>, upstream: impl Upstream + 'static) -> Self {
        self.shared_upstream(name, Arc::new(upstream))
    }

    /// Like [`Self::upstream`], for an upstream that the application also uses elsewhere.
    pub fn shared_upstream(
        mut self,
        name: impl Into<Arc<str>>,
        upstream: Arc<dyn Upstream>,
    ) -> Self {
        self.upstreams.push((name.into(), upstream));
        self
    }

    /// Adds methods that run on the upstreams added with [`Self::upstream`].
    pub fn upstream_methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.upstream_methods.extend(methods);
        self
    }

    /// Adds the methods, prompts and resources of a type, with `plugin` as their state.
    #[cfg(feature = "macros")]
    pub fn plugin(self, plugin: impl Plugin) -> Self {
        self.shared_plugin(Arc::new(plugin))
    }

    /// Like [`Self::plugin`], for a plugin that the application also uses elsewhere.
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

    /// Lets clients subscribe to resources ([`Mcp::resource_updated`](crate::mcp::Mcp::resource_updated)).
    #[cfg(feature = "macros")]
    pub fn resource_subscriptions(mut self) -> Self {
        self.local_resources.can_subscribe = true;
        self
    }

    /// Sets an implementation of prompts. It replaces functions added with `prompts`.
    pub fn prompts_of(mut self, prompts: impl Prompts + 'static) -> Self {
        self.services.prompts = Some(Arc::new(prompts));
        self
    }

    /// Sets an implementation of resources. It replaces functions added with `resources`.
    pub fn resources_of(mut self, resources: impl Resources + 'static) -> Self {
        self.services.resources = Some(Arc::new(resources));
        self
    }

    /// Sets the completion of arguments of prompts and resources.
    pub fn completion(mut self, completion: impl Complete + 'static) -> Self {
        self.services.completion = Some(Arc::new(completion));
        self
    }

    /// Enables tasks, which are stored in `tasks`.
    pub fn tasks(mut self, tasks: impl TaskStore + 'static) -> Self {
        self.services.tasks = Some(Arc::new(tasks));
        self
    }

    /// Stores the events of legacy clients' streams, so that clients can resume the streams.
    pub fn event_store(mut self, store: impl EventStore + 'static) -> Self {
        self.services.event_store = Some(Arc::new(store));
        self
    }

    /// Sets the time limit of calls. Defaults to 30 seconds.
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = Some(timeout);
        self
    }

    /// Sets the maximum total size of the results in memory, in bytes. Defaults to 256 MiB. A result of at most 64 KiB
    /// is not counted, unless it belongs to a batch.
    pub fn max_in_flight_bytes(mut self, bytes: usize) -> Self {
        self.max_in_flight_bytes = Some(bytes);
        self
    }

    /// Sets the rate limits. By default the limit of each caller is `1000/s burst 10000`.
    pub fn rate_limits(mut self, limits: RateLimits) -> Self {
        self.rate_limits = limits;
        self
    }

    /// Sets the sessions of legacy clients. Sessions with a fixed key survive restarts and are valid on several
    /// servers. By default, a new key is generated on each start.
    pub fn sessions(mut self, sessions: Sessions) -> Self {
        self.sessions = Some(sessions);
        self
    }

    /// Builds the server.
    ///
    /// # Errors
    ///
    /// Fails if methods are invalid (the error names all of them), if two prompts, resources or upstreams have the same
    /// name, or if there are no random numbers for a session key.
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
        log_findings(&catalog, &methods);
        let requirements = methods.iter().map(Method::requirement);
        #[cfg(feature = "macros")]
        let requirements = requirements
            .chain(self.prompt_functions.iter().map(PromptFunction::requirement))
            .chain(self.local_resources.functions.iter().map(ResourceFunction::requirement));
        let sections =
            requirements.flat_map(Requirement::sections).map(|(section, _)| section.clone());
        let sections: BTreeSet<Section> = sections.collect();
        let local: (Arc<str>, Arc<dyn Upstream>) = (LOCAL.into(), Arc::new(self.local));
        let upstreams: Vec<_> = self.upstreams.into_iter().chain([local]).collect();
        if let Some(duplicate) = first_duplicate(upstreams.iter().map(|(name, _)| name.to_string()))
        {
            return Err(BuildError::Duplicate("upstreams", duplicate));
        }
        let gateway = Gateway::new(upstreams)
            .call_timeout(self.call_timeout.unwrap_or(DEFAULT_CALL_TIMEOUT))
            .max_in_flight_bytes(self.max_in_flight_bytes.unwrap_or(DEFAULT_IN_FLIGHT_BYTES))
            .rate_limits(self.rate_limits);
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

/// Logs warnings about the methods.
fn log_findings(catalog: &Catalog, methods: &[Method]) {
    for method in methods {
        let id = method.id();
        if method.description.is_empty() {
            tracing::warn!(
                "method `{id}` has no description; agents choose tools by their descriptions"
            );
        }
        let Some(entry) = catalog.by_id(id.as_str()) else { continue };
        let requested = method.tool_name.clone().unwrap_or_else(|| plain_name(id.as_str()));
        let name = catalog.prefix().strip(entry.name());
        if name != requested {
            tracing::warn!(
                "the tool of method `{id}` is named `{name}`, because `{requested}` is taken or too long; set `tool_name`"
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
    if let Some(duplicate) = first_duplicate(names) {
        return Err(BuildError::Duplicate("prompts", duplicate));
    }
    Ok((!functions.is_empty()).then(|| Arc::new(LocalPrompts(functions)) as _))
}

#[cfg(feature = "macros")]
fn local_resources(local: LocalResources) -> Result<Option<Arc<dyn Resources>>, BuildError> {
    if let Some(duplicate) =
        first_duplicate(local.functions.iter().map(ResourceFunction::uri_without_names))
    {
        return Err(BuildError::Duplicate("resources", duplicate));
    }
    Ok((!local.functions.is_empty()).then(|| Arc::new(local) as _))
}

fn first_duplicate(mut names: impl Iterator<Item = String>) -> Option<String> {
    let mut unique = std::collections::HashSet::new();
    names.find(|name| !unique.insert(name.clone()))
}

#[cfg(feature = "http")]
impl Builder {
    /// Sets how callers are authenticated.
    pub fn authenticate(
        mut self,
        authenticate: impl crate::transport::http::Authenticate + 'static,
    ) -> Self {
        self.http.authenticate = Arc::new(authenticate);
        self
    }

    /// Requires a credential for all requests except health and discovery.
    pub fn require_auth(mut self) -> Self {
        self.http.options.require_auth = true;
        self
    }

    /// Serves metrics on `/metrics`, in the text format of Prometheus. With [`require_auth`](Self::require_auth),
    /// clients need a credential to read the metrics.
    pub fn metrics(mut self) -> Self {
        self.http.options.metrics = true;
        self
    }

    /// Allows [`serve`](Callgate::serve) to accept callers without a credential on addresses that other machines can
    /// reach.
    pub fn allow_anonymous(mut self) -> Self {
        self.http.allow_anonymous = true;
        self
    }

    /// Adds host names of this server. `*` allows all names. `localhost` and IP addresses are always allowed.
    pub fn allowed_hosts(mut self, hosts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.http.options.allowed_hosts.extend(hosts.into_iter().map(Into::into));
        self
    }

    /// Adds origins of web pages that may call methods: `https://…`, or `*` for all. Pages on this machine and pages of
    /// this server are always allowed.
    pub fn allowed_origins(mut self, origins: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.http.options.allowed_origins.extend(origins.into_iter().map(Into::into));
        self
    }

    /// Replaces all HTTP options; [`require_auth`](Self::require_auth) and [`metrics`](Self::metrics) stay in
    /// effect.
    pub fn http_options(mut self, options: crate::transport::http::HttpOptions) -> Self {
        let require_auth = self.http.options.require_auth || options.require_auth;
        let metrics = self.http.options.metrics || options.metrics;
        self.http.options =
            crate::transport::http::HttpOptions { require_auth, metrics, ..options };
        self
    }

    /// Sets the options of [`serve`](Callgate::serve).
    pub fn server_options(mut self, options: crate::transport::http::ServerOptions) -> Self {
        self.http.server = options;
        self
    }
}
