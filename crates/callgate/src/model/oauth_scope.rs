//! OAuth scopes that a service requires.

use std::fmt;

/// Maximum number of characters of a scope.
const MAX_LENGTH: usize = 200;

/// Space-separated OAuth scope tokens, such as `content:read content:write`.
///
/// Contains only the characters that RFC 6749 allows, so it is safe in headers and texts.
///
/// Part of [`CallError::Forbidden`](crate::upstream::CallError::Forbidden).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuthScope(String);

impl OAuthScope {
    /// Returns the valid scope tokens of a text, up to 200 characters in all. Returns `None` if there are no valid
    /// tokens.
    pub fn parse(text: &str) -> Option<Self> {
        let mut scope = String::new();
        for token in text.split(' ').filter(|token| is_token(token)) {
            if scope.len() + token.len() + 1 > MAX_LENGTH {
                break;
            }
            if !scope.is_empty() {
                scope.push(' ');
            }
            scope.push_str(token);
        }
        (!scope.is_empty()).then_some(Self(scope))
    }

    /// Returns the tokens, separated by spaces.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns `true` for a scope token of RFC 6749: `1*( %x21 / %x23-5B / %x5D-7E )`.
fn is_token(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    !text.is_empty() && text.bytes().all(is_allowed)
}

impl fmt::Display for OAuthScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_scope_tokens_are_kept_up_to_the_maximum_length() {
        let parsed = |text: &str| OAuthScope::parse(text).map(|scope| scope.to_string());
        assert_eq!(parsed("content:read  a!").as_deref(), Some("content:read a!"));
        assert_eq!(parsed("é a\"b c\\d ok \u{7} x\ny").as_deref(), Some("ok"));
        assert_eq!(parsed(""), None);
        assert_eq!(parsed(" \n"), None);
        let many = parsed(&"scope ".repeat(100)).unwrap();
        assert!(many.len() <= MAX_LENGTH && many.ends_with("scope"), "{many}");
        assert_eq!(parsed(&"x".repeat(MAX_LENGTH)), None);
    }
}
