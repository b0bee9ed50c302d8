//! Where the user set a token, and what looks wrong with the token.

/// The origin of the token, without the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokenOrigin {
    source: &'static str,
    defect: Option<&'static str>,
}

impl TokenOrigin {
    pub(crate) fn of_token(source: &'static str, token: &str) -> Self {
        Self { source, defect: defect(token) }
    }

    /// Returns the origin of a token in an `Authorization` header set with `--header`.
    pub(crate) fn of_header(value: &str) -> Self {
        let token =
            value.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        Self { source: "--header", defect: token.and_then(|(_, token)| defect(token.trim())) }
    }

    /// Returns the message for a rejected token.
    pub(crate) fn rejected(&self) -> String {
        let message = format!(
            "The server rejected the token (from {}): it may be revoked, expired or for another server",
            self.source
        );
        match self.defect {
            Some(defect) => format!("{message}. The token {defect}, which must be removed"),
            None => message,
        }
    }
}

fn defect(token: &str) -> Option<&'static str> {
    if token.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("bearer ")) {
        Some("begins with `Bearer`")
    } else if token.contains(['"', '\'', '`']) {
        Some("has quotes in it")
    } else if token.contains(char::is_whitespace) {
        Some("has spaces in it")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_defects_are_reported_without_the_token() {
        for (token, message) in [
            ("Bearer s3cret", "begins with `Bearer`"),
            ("\"s3cret\"", "has quotes"),
            ("s3 cret", "has spaces"),
        ] {
            let credential = TokenOrigin::of_token("CALLGATE_TOKEN", token);
            assert!(credential.rejected().contains(message), "{}", credential.rejected());
            assert!(!format!("{credential:?}{}", credential.rejected()).contains("cret"));
            assert_eq!(
                TokenOrigin::of_header(&format!("Bearer {token}")).defect,
                credential.defect
            );
        }
        assert_eq!(TokenOrigin::of_token("x", "s3cret").defect, None);
        assert_eq!(TokenOrigin::of_header("Basic s3cret").defect, None);
    }
}
