//! A running service from which a description of its methods is requested.

mod attempts;

use callgate::forward::{Forward, ForwardOptions, QueryError, Target};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::limits::MAX_DOCUMENT_BYTES;
use crate::text::shortened;

pub use attempts::Attempts;

pub(crate) use attempts::{GET_DOCUMENT, is_unknown_method};

/// Maximum length of a service's message in an error, in characters.
const MAX_MESSAGE: usize = 200;

/// A running service.
#[derive(Debug)]
pub struct Service {
    forward: Forward,
    /// Options for calling the service's methods.
    pub options: ForwardOptions,
}

impl Service {
    /// Creates a client for the service. Replies may be as large as a document.
    pub fn new(options: ForwardOptions) -> anyhow::Result<Self> {
        let mut query_options = options.clone();
        query_options.limits.result_bytes =
            usize::try_from(MAX_DOCUMENT_BYTES).unwrap_or(usize::MAX);
        Ok(Self { forward: Forward::new("import", query_options)?, options })
    }

    /// Returns the address of the service.
    pub fn target(&self) -> &Target {
        self.options.target()
    }

    /// Calls a method.
    pub(crate) async fn call(
        &self,
        method: &str,
        params: &[Value],
    ) -> Result<Box<RawValue>, QueryError> {
        let null = || RawValue::NULL.to_owned();
        let params = to_raw_value(params).unwrap_or_else(|_| null());
        self.forward.query(method, &params).await
    }

    /// Returns the document at the service's URL, or at another URL of the same server.
    pub(crate) async fn get(&self, target: Option<&Target>) -> Result<String, QueryError> {
        self.forward.get(target).await
    }
}

/// Returns a message of the service as one line of limited length.
pub(crate) fn shortened_message(text: &str) -> String {
    shortened(text, MAX_MESSAGE)
}
