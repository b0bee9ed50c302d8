//! What is known of a token, other than itself: where people find it, and what looks wrong with it.

/// The token that goes with every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Credential {
    source: &'static str,
    oddity: Option<&'static str>,
}

impl Credential {
    pub(super) fn of_token(source: &'static str, token: &str) -> Self {
        Self { source, oddity: oddity(token) }
    }

    /// What `--header` says in place of a token.
    pub(super) fn of_header(value: &str) -> Self {
        let token =
            value.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        Self { source: "--header", oddity: token.and_then(|(_, token)| oddity(token.trim())) }
    }

    /// For people whose token was refused.
    pub(super) fn refused(&self) -> String {
        let words = format!(
            "The server refused the token (from {}): it may be revoked, expired or of another server",
            self.source
        );
        match self.oddity {
            Some(oddity) => format!("{words}. It {oddity}, which does not belong to it"),
            None => words,
        }
    }
}

fn oddity(token: &str) -> Option<&'static str> {
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
    fn what_looks_wrong_with_a_token_is_named_and_the_token_is_not() {
        for (token, words) in [
            ("Bearer s3cret", "begins with `Bearer`"),
            ("\"s3cret\"", "has quotes"),
            ("s3 cret", "has spaces"),
        ] {
            let credential = Credential::of_token("CALLGATE_TOKEN", token);
            assert!(credential.refused().contains(words), "{}", credential.refused());
            assert!(!format!("{credential:?}{}", credential.refused()).contains("cret"));
            assert_eq!(Credential::of_header(&format!("Bearer {token}")).oddity, credential.oddity);
        }
        assert_eq!(Credential::of_token("x", "s3cret").oddity, None);
        assert_eq!(Credential::of_header("Basic s3cret").oddity, None);
    }
}
