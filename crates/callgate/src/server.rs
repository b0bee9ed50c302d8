//! A gateway with everything around it: methods in, faces out.

mod builder;
#[cfg(feature = "macros")]
pub mod plugin;

use std::sync::Arc;

use crate::access::{Caller, Section};
use crate::gateway::{AsCaller, Gateway};
use crate::mcp::Mcp;
use crate::model::method::Method;

pub use builder::{BuildError, Builder};

/// Methods of this process, ready to be served.
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
/// let gateway = Callgate::builder().methods(methods![greet]).build()?;
/// let nobody = gateway.as_caller(Caller::anonymous());
/// assert_eq!(nobody.call("greet", json!({"name": "Ada"})).await?, "Hello, Ada!");
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
    /// To be told what there is.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// What lists, describes and calls, and where access is decided.
    pub fn gateway(&self) -> &Arc<Gateway> {
        self.mcp.gateway()
    }

    /// The protocol, for telling clients what changed.
    pub fn mcp(&self) -> &Arc<Mcp> {
        &self.mcp
    }

    /// The methods that were given to the builder, as code defines them.
    pub fn methods(&self) -> &[Method] {
        &self.methods
    }

    /// The sections that methods, prompts and resources name.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// Everything as this caller has it, without sockets: for tests, and for calling methods oneself.
    pub fn as_caller(&self, caller: Caller) -> AsCaller<'_> {
        self.gateway().as_caller(caller)
    }

    /// Speaks MCP on standard input and output, on behalf of one caller, until the input ends. Nothing
    /// else may be printed there.
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
    //! Over HTTP.

    use std::sync::Arc;

    use thiserror::Error;
    use tokio::net::{TcpListener, ToSocketAddrs};

    use super::Callgate;
    use crate::transport::http;
    use crate::transport::http::{
        Authenticate, HttpOptions, HttpService, Readiness, ServerLimits, shutdown_signal,
    };

    /// What is said of HTTP.
    #[derive(Debug, Clone)]
    pub(super) struct HttpSettings {
        pub(super) authenticate: Arc<dyn Authenticate>,
        pub(super) options: HttpOptions,
        /// Whether other machines may come without a credential.
        pub(super) allow_anonymous: bool,
        pub(super) readiness: Readiness,
        pub(super) limits: ServerLimits,
    }

    impl Default for HttpSettings {
        fn default() -> Self {
            Self {
                authenticate: Arc::new(http::Anonymous),
                options: HttpOptions::default(),
                allow_anonymous: false,
                readiness: Readiness::default(),
                limits: ServerLimits::default(),
            }
        }
    }

    /// Why a server did not start.
    #[derive(Debug, Error)]
    pub enum ServeError {
        /// The address is taken, or not one of this machine.
        #[error("cannot listen")]
        Listen(#[from] std::io::Error),
        /// Everybody could call.
        #[error(
            "{0} can be reached from other machines, and callers need no credential: say \
             `require_auth()`, or `allow_anonymous()` if everybody is welcome"
        )]
        Unprotected(std::net::SocketAddr),
    }

    impl Callgate {
        /// The routes of the faces, to be merged into a router of one's own: `/mcp`, `/jsonrpc`,
        /// `/mcp/tools/…` and `/.well-known/mcp.json`. Everything else stays the application's.
        ///
        /// Who asks is told by [`Builder::authenticate`](super::Builder::authenticate), or by a layer
        /// around it that puts a [`Caller`](crate::access::Caller) into the request's extensions.
        pub fn router(&self) -> axum::Router {
            let HttpSettings { authenticate, options, .. } = self.http.clone();
            http::router(Arc::clone(&self.mcp), authenticate, options)
        }

        /// `/healthz` and `/readyz`, for an application that has none of its own.
        pub fn health_router(&self) -> axum::Router {
            http::health_router(Arc::clone(&self.mcp), self.http.readiness.clone())
        }

        /// What `/readyz` says.
        pub fn readiness(&self) -> &Readiness {
            &self.http.readiness
        }

        fn service(&self) -> HttpService {
            let HttpSettings { authenticate, options, readiness, .. } = self.http.clone();
            http::service(Arc::clone(&self.mcp), authenticate, readiness, options)
        }

        /// Serves on this address until the process is told to stop by SIGTERM or Ctrl-C; then
        /// requests under way may finish.
        ///
        /// # Errors
        ///
        /// When it cannot listen there, and when other machines could call without a credential.
        pub async fn serve(&self, address: impl ToSocketAddrs) -> Result<(), ServeError> {
            let listener = TcpListener::bind(address).await?;
            self.serve_on(listener, shutdown_signal()).await
        }

        /// Serves what comes in here until `stop`.
        ///
        /// # Errors
        ///
        /// When other machines could call without a credential.
        pub async fn serve_on(
            &self,
            listener: TcpListener,
            stop: impl Future<Output = ()>,
        ) -> Result<(), ServeError> {
            let address = listener.local_addr()?;
            let HttpSettings { allow_anonymous, options, limits, .. } = &self.http;
            if !(address.ip().is_loopback() || options.require_auth || *allow_anonymous) {
                return Err(ServeError::Unprotected(address));
            }
            tracing::info!("serving MCP at http://{address}/mcp");
            let stop = async {
                stop.await;
                // Clients that listen would hold up the end.
                self.mcp.close();
            };
            http::serve(listener, self.service(), *limits, stop).await;
            Ok(())
        }
    }
}

#[cfg(feature = "http")]
pub use http::ServeError;
