//! Compares the replies of Callgate and of an rmcp server, and uses Callgate with an rmcp client.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may panic, and is easier to read without error handling"
)]

mod differential;
mod examples;
mod program;
mod rmcp_client;
