//! The library as its users see it.

#[cfg(feature = "bridge")]
mod bridge;
#[cfg(feature = "macros")]
mod errors;
#[cfg(all(feature = "http", feature = "websocket"))]
mod forward;
#[cfg(feature = "http")]
mod http;
mod layers;
#[cfg(feature = "http")]
mod log;
#[cfg(all(feature = "http", feature = "macros", feature = "stdio"))]
mod macros;
