//! Running calls: negotiated properties, notifications, questions to the client, cancellation.

pub(crate) mod negotiated;
pub(crate) mod in_flight;
mod client_messages;
pub(crate) mod notifier;
pub(crate) mod questions;
pub(crate) mod context;
pub(crate) mod running_call;
