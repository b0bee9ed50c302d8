//! Running calls: negotiated properties, notifications, questions to the client, cancellation.

pub(crate) mod negotiated;
pub(crate) mod in_flight;
pub(crate) mod notifier;
pub(crate) mod elicitation;
pub(crate) mod context;
pub(crate) mod running_call;
