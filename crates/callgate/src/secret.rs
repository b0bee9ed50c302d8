//! A text that is never printed.

use std::fmt;
use std::sync::Arc;

use subtle::ConstantTimeEq as _;

/// A text that shows in no log and in no `Debug`.
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Without the white space around it; an empty one is none.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.into()))
    }

    /// The text itself, for where it is sent.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// Compares in constant time for texts of one length.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
