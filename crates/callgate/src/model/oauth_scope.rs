//! The scope that an OAuth credential lacks, as a service names it.

use std::fmt;

/// Maximum length of a scope that is repeated to a caller.
const MAX_LENGTH: usize = 200;

/// One or more scope tokens of OAuth with a space between, such as `content:read content:write`.
///
/// Only what RFC 6749 allows in a scope token is in it, so it can stand in a header and in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuthScope(String);

impl OAuthScope {
    /// Takes the scope tokens of a text, up to 200 characters; `None` if there is none.
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

    /// The tokens.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// `1*( %x21 / %x23-5B / %x5D-7E )`
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
    fn only_scope_tokens_are_taken_and_not_too_many() {
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
