//! How requests arrive: HTTP, and lines on standard input.

#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "stdio")]
pub mod stdio;
