//! A secret text.

use std::fmt;
use std::sync::Arc;

use subtle::ConstantTimeEq as _;

/// A secret text. `Debug` does not print it.
///
/// ```
/// use callgate::Secret;
///
/// let token = Secret::new(" s3cret ").ok_or("the token is empty")?;
/// assert!(!format!("{token:?}").contains("s3cret"));
/// assert_eq!(token.expose(), "s3cret");
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Creates a secret from the trimmed text. Returns `None` if the trimmed text is empty.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.into()))
    }

    /// Returns the text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// Compares in constant time if both texts have the same length.
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
