//! Parses token responses (RFC 6749, sections 5.1 and 5.2).

use std::time::Duration;

use http::StatusCode;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::token_error::{TokenError, is_temporary};
use crate::secret::Secret;

/// Lifetime that is assumed for an access token without `expires_in`.
const UNKNOWN_LIFETIME: Duration = Duration::from_mins(5);

/// Maximum lifetime of an access token. A longer lifetime is reduced to this maximum.
const MAX_LIFETIME: Duration = Duration::from_hours(24);

/// Maximum number of characters of an error description in the log.
const MAX_DESCRIPTION: usize = 200;

const MAX_TOKEN: usize = 32 * 1024;

#[derive(Debug, Clone)]
pub(crate) struct TokenResponse {
    pub(crate) access_token: Secret,
    pub(crate) lifetime: Duration,
    pub(crate) received_at: Instant,
    /// New refresh token, if the server rotates refresh tokens.
    pub(crate) refresh_token: Option<Secret>,
}

const ERROR_CODES: [&str; 4] =
    ["invalid_request", "invalid_scope", "unauthorized_client", "unsupported_grant_type"];

pub(crate) fn read(
    status: StatusCode,
    body: &str,
    is_refresh: bool,
) -> Result<TokenResponse, TokenError> {
    let members: Option<Map<String, Value>> = serde_json::from_str(body.trim()).ok();
    if status.is_redirection() {
        return Err(TokenError::Malformed("a redirect, which is not followed"));
    }
    let members = members.unwrap_or_default();
    // Some servers send errors with HTTP 200.
    if !status.is_success() || members.contains_key("error") {
        return Err(classify_error(
            status,
            members.get("error").and_then(Value::as_str),
            is_refresh,
        ));
    }
    parse_success(&members)
}

fn parse_success(members: &Map<String, Value>) -> Result<TokenResponse, TokenError> {
    if members.is_empty() {
        return Err(TokenError::Malformed("not a JSON object"));
    }
    let is_bearer =
        |kind: &Value| kind.as_str().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("bearer"));
    if !members.get("token_type").is_some_and(is_bearer) {
        return Err(TokenError::Malformed("its `token_type` is not `bearer`"));
    }
    let access_token = members.get("access_token").and_then(token);
    Ok(TokenResponse {
        access_token: access_token.ok_or(TokenError::Malformed("no `access_token`"))?,
        lifetime: lifetime(members.get("expires_in")),
        received_at: Instant::now(),
        refresh_token: members.get("refresh_token").and_then(token),
    })
}

pub(crate) fn token(value: &Value) -> Option<Secret> {
    let text = value.as_str()?.trim();
    let is_valid = text.len() <= MAX_TOKEN && text.bytes().all(|byte| byte.is_ascii_graphic());
    Secret::new(text).filter(|_| is_valid)
}

/// Parses a lifetime in seconds, which is a number or a string. An invalid lifetime is treated as unknown, which is
/// safe: the service responds with 401 when the token has expired.
fn lifetime(value: Option<&Value>) -> Duration {
    let seconds = match value {
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => text.trim().parse().ok(),
        _ => None,
    };
    match seconds {
        Some(seconds) if seconds >= 1.0 => {
            Duration::try_from_secs_f64(seconds).unwrap_or(MAX_LIFETIME).min(MAX_LIFETIME)
        }
        _ => UNKNOWN_LIFETIME,
    }
}

fn classify_error(status: StatusCode, code: Option<&str>, is_refresh: bool) -> TokenError {
    match code {
        _ if is_temporary(status) => TokenError::Status(status),
        Some("invalid_client") => TokenError::InvalidClient,
        Some("invalid_grant") => TokenError::InvalidGrant,
        // league/oauth2-server before version 9, which Drupal uses, sends this error for an invalid refresh token.
        Some("invalid_request") if is_refresh && status == StatusCode::UNAUTHORIZED => {
            TokenError::InvalidGrant
        }
        Some("temporarily_unavailable" | "server_error") => {
            TokenError::Status(StatusCode::SERVICE_UNAVAILABLE)
        }
        Some(code) => {
            let known = ERROR_CODES.iter().find(|known| **known == code);
            TokenError::Refused(known.copied().unwrap_or("an unknown error"))
        }
        None if status == StatusCode::UNAUTHORIZED => TokenError::InvalidClient,
        None if status.is_success() => TokenError::Malformed("an `error` that is not a string"),
        None => TokenError::Status(status),
    }
}

/// Returns the server's description of an error for the log, or `None` if it contains one of the `secrets`.
pub(crate) fn description(body: &str, secrets: &[&str]) -> Option<String> {
    let members: Map<String, Value> = serde_json::from_str(body.trim()).ok()?;
    let text = ["error_description", "message", "hint"]
        .iter()
        .find_map(|name| members.get(*name)?.as_str())?;
    if secrets.iter().any(|secret| text.contains(secret)) {
        return None;
    }
    Some(text.chars().filter(|c| !c.is_control()).take(MAX_DESCRIPTION).collect())
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn token_endpoint_responses_are_classified() {
        let long = format!(r#"{{"token_type":"Bearer","access_token":"{}"}}"#, "x".repeat(40_000));
        let mut table = String::new();
        for (status, body) in [
            (200, r#"{"token_type":"Bearer","expires_in":3600,"access_token":"t"}"#),
            (200, r#"{"token_type":"bearer","access_token":"t","refresh_token":"r"}"#),
            (200, r#"{"token_type":"Bearer","expires_in":"300","access_token":"t"}"#),
            (200, r#"{"token_type":"Bearer","expires_in":0,"access_token":"t"}"#),
            (200, r#"{"token_type":"Bearer","expires_in":-5,"access_token":"t"}"#),
            (200, r#"{"token_type":"Bearer","expires_in":1e300,"access_token":"t"}"#),
            (
                200,
                r#"{"token_type":"Bearer","expires_in":99999999999999999999,"access_token":"t"}"#,
            ),
            (200, r#"{"token_type":"Bearer","expires_in":"soon","access_token":"t"}"#),
            (200, r#"{"token_type":"Bearer","expires_in":"NaN","access_token":"t"}"#),
            (200, r#"{"token_type":"Bearer","expires_in":{},"access_token":"t"}"#),
            (200, r#"{"token_type":"Bearer","expires_in":1.5,"access_token":"t"}"#),
            (200, r#"{"token_type":"Bearer"}"#),
            (200, r#"{"token_type":"Bearer","access_token":""}"#),
            (200, r#"{"token_type":"Bearer","access_token":"a b"}"#),
            (200, r#"{"token_type":"Bearer","access_token":7}"#),
            (200, r#"{"token_type":"mac","access_token":"t"}"#),
            (200, r#"{"access_token":"t"}"#),
            (200, "<h1>Welcome</h1>"),
            (200, "[]"),
            (200, ""),
            (200, r#"{"error":"invalid_grant"}"#),
            (302, ""),
            (400, r#"{"error":"invalid_grant","error_description":"gone"}"#),
            (400, r#"{"error":"invalid_scope"}"#),
            (400, r#"{"error":"<script>"}"#),
            (400, r#"{"error":7}"#),
            (401, r#"{"error":"invalid_client"}"#),
            (401, r#"{"error":"invalid_request","hint":"Token has been revoked"}"#),
            (401, "<h1>Who?</h1>"),
            (404, "<h1>Not here</h1>"),
            (429, r#"{"error":"invalid_client"}"#),
            (503, "<h1>Maintenance</h1>"),
        ] {
            writeln!(table, "{status} {body}\n    {}", describe(status, body)).unwrap();
        }
        writeln!(table, "a token of 40,000 bytes\n    {}", describe(200, &long)).unwrap();
        insta::assert_snapshot!(table);
    }

    fn describe(status: u16, body: &str) -> String {
        match read(StatusCode::from_u16(status).unwrap(), body, true) {
            Ok(TokenResponse { access_token, lifetime, refresh_token, .. }) => {
                let refresh = refresh_token.as_ref().map(Secret::expose);
                format!("{} for {lifetime:?}, refresh {refresh:?}", access_token.expose())
            }
            Err(error) => format!("{error}"),
        }
    }

    #[test]
    fn an_error_description_is_truncated_and_omitted_if_it_contains_a_secret() {
        let body = |text: &str| serde_json::json!({"error": "x", "error_description": text});
        let long = description(&body(&"a\n".repeat(500)).to_string(), &["s3cret"]).unwrap();
        assert_eq!(long, "a".repeat(MAX_DESCRIPTION));
        assert_eq!(description(&body("no `s3cret`").to_string(), &["s3cret"]), None);
        assert_eq!(description("<h1>", &[]), None);
    }
}
