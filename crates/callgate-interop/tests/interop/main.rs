//! Callgate and rmcp, side by side and at each other's ends.
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
