//! An MCP server for Rust functions and for methods of services.

mod builder;
#[cfg(feature = "macros")]
pub mod plugin;

use std::sync::Arc;

use crate::access::{Caller, Section};
use crate::gateway::{AsCaller, Gateway};
use crate::mcp::{Mcp, TestClient};
use crate::model::method::Method;

pub use builder::{BuildError, Builder};

/// An MCP server for Rust functions and for methods of services.
///
/// ```
/// use callgate::{Callgate, Caller, method, methods};
/// use serde_json::json;
///
/// /// Greets somebody.
/// #[method(read_only)]
/// fn greet(name: String) -> String {
///     format!("Hello, {name}!")
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Callgate::builder().methods(methods![greet]).build()?;
/// let anonymous = server.as_caller(Caller::anonymous());
/// assert_eq!(anonymous.call("greet", json!({"name": "Ada"})).await?, "Hello, Ada!");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Callgate {
    mcp: Arc<Mcp>,
    methods: Arc<[Method]>,
    sections: Arc<[Section]>,
    #[cfg(feature = "http")]
    http: http::HttpSettings,
}

impl Callgate {
    /// Returns a builder.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the gateway, which decides access, and lists and calls tools.
    pub fn gateway(&self) -> &Arc<Gateway> {
        self.mcp.gateway()
    }

    /// Returns the MCP layer, with which an application notifies clients of changes.
    pub fn mcp(&self) -> &Arc<Mcp> {
        &self.mcp
    }

    /// Returns the methods that were passed to the builder.
    pub fn methods(&self) -> &[Method] {
        &self.methods
    }

    /// Returns the sections that methods, prompts and resources require.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// Returns a view of the gateway for one caller. Tests and applications use the view to call methods directly,
    /// without sockets.
    pub fn as_caller(&self, caller: Caller) -> AsCaller<'_> {
        self.gateway().as_caller(caller)
    }

    /// Returns an MCP client in this process, to test prompts, resources and questions to the client.
    pub fn test_client(&self, caller: Caller) -> TestClient<'_> {
        TestClient::new(&self.mcp, caller)
    }

    /// Serves MCP on standard input and output on behalf of one caller, until the input ends. The process
    /// must not print anything else to standard output.
    #[cfg(feature = "stdio")]
    pub async fn serve_stdio(
        &self,
        caller: Caller,
    ) -> Result<(), crate::transport::stdio::StdioError> {
        let input = tokio::io::BufReader::new(tokio::io::stdin());
        let options = crate::transport::stdio::StdioOptions::default();
        let mcp = Arc::clone(&self.mcp);
        crate::transport::stdio::serve(mcp, Arc::new(caller), input, tokio::io::stdout(), options)
            .await
    }
}

#[cfg(feature = "http")]
mod http {
    //! Serving over HTTP.

    use std::sync::Arc;

    use thiserror::Error;
    use tokio::net::{TcpListener, ToSocketAddrs};

    use super::Callgate;
    use crate::transport::http;
    use crate::transport::http::{
        Authenticate, EndpointSet, HttpOptions, HttpService, Readiness, ServerOptions,
        shutdown_signal,
    };

    #[derive(Debug, Clone)]
    pub(super) struct HttpSettings {
        pub(super) authenticate: Arc<dyn Authenticate>,
        pub(super) options: HttpOptions,
        /// Whether other machines may connect without a credential.
        pub(super) allow_anonymous: bool,
        pub(super) readiness: Readiness,
        pub(super) server: ServerOptions,
    }

    impl Default for HttpSettings {
        fn default() -> Self {
            Self {
                authenticate: Arc::new(http::Anonymous),
                options: HttpOptions::default(),
                allow_anonymous: false,
                readiness: Readiness::default(),
                server: ServerOptions::default(),
            }
        }
    }

    /// The server could not start.
    ///
    /// ```
    /// use callgate::{Callgate, ServeError};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = Callgate::builder().build()?;
    /// // Other machines can reach this address, so anonymous callers must be allowed explicitly.
    /// let served = server.serve("0.0.0.0:0").await;
    /// assert!(matches!(served, Err(ServeError::Unprotected(_))));
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Debug, Error)]
    pub enum ServeError {
        /// Listening failed, for example because the address is in use.
        #[error("failed to listen on the address")]
        Listen(#[from] std::io::Error),
        /// Other machines could call methods without a credential.
        #[error(
            "{0} can be reached from other machines, and callers need no credential: call \
             `require_auth()`, or `allow_anonymous()` if that is intended"
        )]
        Unprotected(std::net::SocketAddr),
    }

    impl Callgate {
        /// Returns a router to be merged into an application's router. Its routes are `/mcp`, `/jsonrpc`,
        /// `/mcp/tools/…`, `/.well-known/mcp.json`, and `/metrics` if [enabled](super::Builder::metrics).
        ///
        /// [`Builder::authenticate`](super::Builder::authenticate) determines the caller. Alternatively, a layer adds a
        /// [`Caller`](crate::access::Caller) to the request's extensions.
        pub fn router(&self) -> axum::Router {
            let HttpSettings { authenticate, options, .. } = self.http.clone();
            http::router(Arc::clone(&self.mcp), authenticate, options)
        }

        /// Returns the routes `/healthz` and `/readyz`.
        pub fn health_router(&self) -> axum::Router {
            let HttpSettings { authenticate, readiness, .. } = self.http.clone();
            http::health_router(Arc::clone(&self.mcp), authenticate, readiness)
        }

        /// Returns `true` if callers without a credential are refused.
        pub fn requires_auth(&self) -> bool {
            self.http.options.require_auth
        }

        /// Returns the state that `/readyz` reports.
        pub fn readiness(&self) -> &Readiness {
            &self.http.readiness
        }

        fn service(&self, endpoints: EndpointSet) -> HttpService {
            let HttpSettings { authenticate, options, readiness, .. } = self.http.clone();
            let options = HttpOptions { endpoints, ..options };
            http::service(Arc::clone(&self.mcp), authenticate, readiness, options)
        }

        /// Serves on this address until SIGTERM or Ctrl-C, then completes requests in progress.
        ///
        /// # Errors
        ///
        /// Fails if the address cannot be bound, or if other machines could call methods without a credential.
        pub async fn serve(&self, address: impl ToSocketAddrs) -> Result<(), ServeError> {
            let listener = TcpListener::bind(address).await?;
            self.serve_on(listener, shutdown_signal()).await
        }

        /// Serves on this listener until `stop` completes.
        ///
        /// # Errors
        ///
        /// Fails if other machines could call methods without a credential.
        pub async fn serve_on(
            &self,
            listener: TcpListener,
            stop: impl Future<Output = ()>,
        ) -> Result<(), ServeError> {
            self.serve_endpoints(self.http.options.endpoints, listener, stop).await
        }

        /// Like [`serve_on`](Self::serve_on), but with a second listener, `operations`, which serves `/healthz`,
        /// `/readyz` and `/metrics`. The first listener then has no `/metrics`, and its `/readyz` shows no details. The
        /// listener `operations` needs no credential, and it responds even if the first listener accepts no more
        /// connections.
        ///
        /// # Errors
        ///
        /// Fails if other machines could call methods without a credential.
        pub async fn serve_with_operations(
            &self,
            listener: TcpListener,
            operations: TcpListener,
            stop: impl Future<Output = ()>,
        ) -> Result<(), ServeError> {
            let address = operations.local_addr()?;
            tracing::info!("serving health and metrics at http://{address}");
            let options =
                ServerOptions { max_connections: 64, runtimes: Vec::new(), ..self.http.server };
            let service = self.service(EndpointSet::Operations);
            tokio::select! {
                served = self.serve_endpoints(EndpointSet::Public, listener, stop) => served,
                () = http::serve(operations, service, options, std::future::pending()) => Ok(()),
            }
        }

        async fn serve_endpoints(
            &self,
            endpoints: EndpointSet,
            listener: TcpListener,
            stop: impl Future<Output = ()>,
        ) -> Result<(), ServeError> {
            let address = listener.local_addr()?;
            let HttpSettings { allow_anonymous, options, server, .. } = &self.http;
            if !(address.ip().is_loopback() || options.require_auth || *allow_anonymous) {
                return Err(ServeError::Unprotected(address));
            }
            tracing::info!("serving MCP at http://{address}/mcp");
            let stop = async {
                stop.await;
                // Closes open subscriptions, which would delay the shutdown.
                self.mcp.close();
            };
            http::serve(listener, self.service(endpoints), server.clone(), stop).await;
            Ok(())
        }
    }
}

#[cfg(feature = "http")]
pub use http::ServeError;
