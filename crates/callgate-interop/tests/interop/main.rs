//! Callgate and rmcp: as servers with the same replies, and as client and server.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may stop, and reads better so"
)]

mod differential;
mod examples;
mod program;
mod rmcp_client;
