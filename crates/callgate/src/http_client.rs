//! What clients of HTTP share: connections, TLS, reading bodies, and what went wrong in words.

pub(crate) mod body;
pub(crate) mod connector;
pub(crate) mod endpoint;
pub(crate) mod send_error;
pub(crate) mod stream;
pub(crate) mod tls;
