//! Reads the challenge in `WWW-Authenticate` (RFC 9110, RFC 6750).

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

use crate::model::oauth_scope::OAuthScope;

/// Maximum length of a header value. Longer values are ignored.
const MAX_LENGTH: usize = 4096;

const MAX_HEADERS: usize = 4;

/// Returns the scope of a Bearer challenge with `error="insufficient_scope"`.
pub(crate) fn missing_scope(headers: &HeaderMap) -> Option<OAuthScope> {
    let values = headers.get_all(WWW_AUTHENTICATE).iter().take(MAX_HEADERS);
    values
        .filter_map(|value| value.to_str().ok().filter(|value| value.len() <= MAX_LENGTH))
        .find_map(missing_scope_in)
}

fn missing_scope_in(mut rest: &str) -> Option<OAuthScope> {
    let (mut is_bearer, mut is_insufficient, mut scope) = (false, false, None);
    while !rest.is_empty() {
        let (token, after) = split(rest, is_token_char);
        let next = after.trim_start_matches([' ', '\t']);
        if token.is_empty() {
            // Skips a separator or an invalid character.
            rest = after.get(1..).unwrap_or_default();
        } else if let Some(value) = next.strip_prefix('=') {
            let (value, after) = parameter(value.trim_start_matches([' ', '\t']));
            if is_bearer && token.eq_ignore_ascii_case("error") {
                is_insufficient = value == "insufficient_scope";
            } else if is_bearer && token.eq_ignore_ascii_case("scope") {
                scope = OAuthScope::parse(value);
            }
            rest = after;
        } else if is_insufficient {
            // The next challenge begins here.
            break;
        } else {
            (is_bearer, scope) = (token.eq_ignore_ascii_case("bearer"), None);
            rest = after;
        }
    }
    scope.filter(|_| is_insufficient)
}

/// Splits off a value, which may be quoted. Keeps escapes, because no scope contains them.
fn parameter(text: &str) -> (&str, &str) {
    let Some(quoted) = text.strip_prefix('"') else { return split(text, is_token_char) };
    let mut is_escaped = false;
    let (value, after) = split(quoted, |c| {
        let is_end = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        !is_end
    });
    (value, after.strip_prefix('"').unwrap_or(after))
}

fn split(text: &str, mut is_part: impl FnMut(char) -> bool) -> (&str, &str) {
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

fn is_token_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn scope(value: &str) -> Option<String> {
        let value = HeaderValue::from_bytes(value.as_bytes()).ok()?;
        missing_scope(&HeaderMap::from_iter([(WWW_AUTHENTICATE, value)]))
            .map(|scope| scope.to_string())
    }

    #[test]
    fn the_missing_scope_is_read_only_from_a_bearer_challenge() {
        for (header, expected) in [
            (
                r#"Bearer realm="MCP Tools", error="insufficient_scope", scope="content:read""#,
                Some("content:read"),
            ),
            (r#"bearer scope="a b",error=insufficient_scope"#, Some("a b")),
            (r#"Basic realm="x, y", Bearer error = "insufficient_scope", scope = a"#, Some("a")),
            (r#"Bearer error="insufficient_scope", scope="a", Basic realm="scope""#, Some("a")),
            (r#"Bearer error="insufficient_scope", scope="a <b> \"c\" d""#, Some("a <b> d")),
            (r#"Bearer error="insufficient_scope", scope="open"#, Some("open")),
            (r#"Bearer realm="MCP Tools""#, None),
            (r#"Bearer error="invalid_token", scope="a""#, None),
            (r#"Basic error="insufficient_scope", scope="a""#, None),
            (r#"Bearer realm="\", error=\"insufficient_scope\", scope=\"a""#, None),
            (r#"Bearer scope="a", Digest error="insufficient_scope""#, None),
            (r#"Negotiate YII==, Bearer error="insufficient_scope", scope="a""#, Some("a")),
            (r#"Bearer error="insufficient_scope""#, None),
            ("", None),
            ("=,=\"", None),
        ] {
            assert_eq!(scope(header).as_deref(), expected, "{header}");
        }
        let long = format!("Bearer error=insufficient_scope, scope=a, x={}", "y".repeat(5000));
        assert_eq!(scope(&long), None);
    }

    proptest! {
        #[test]
        fn any_header_is_parsed_without_a_panic(value in r#"[Bbearer error=scope,"\\a-z\t]{0,80}"#) {
            if let Some(scope) = scope(&value) {
                prop_assert!(!scope.contains(['"', '\\', '\t']));
            }
        }
    }
}
