//! Errors with a remedy, which is shown on a separate line.

/// An error and its remedy.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Hinted {
    message: String,
    /// The remedy.
    pub hint: String,
}

/// Creates an error with a remedy.
pub fn hinted(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(Hinted { message: message.into(), hint: hint.into() })
}
