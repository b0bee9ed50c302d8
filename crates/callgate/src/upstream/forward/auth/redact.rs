//! Removes the secrets of a request from messages of the service.

use crate::upstream::forward::{Authentication, ForwardOptions, SecretJson};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use serde_json::Value;

/// Minimum length of a secret. Shorter strings occur by chance.
const MIN_LENGTH: usize = 4;

pub(crate) fn redact(
    text: &str,
    options: &ForwardOptions,
    headers: &HeaderMap,
    auth: &Authentication,
) -> String {
    let mut secrets = Vec::new();
    let sensitive = headers.values().filter(|value| value.is_sensitive());
    for value in sensitive.filter_map(|value| value.to_str().ok()) {
        let secret = value.split_once(' ').map_or(value, |(_, secret)| secret);
        secrets.extend([value.to_owned(), secret.to_owned()]);
        let basic = STANDARD.decode(secret).ok().and_then(|pair| String::from_utf8(pair).ok());
        let password = basic.as_deref().and_then(|pair| pair.split_once(':'));
        secrets.extend(password.map(|(_, password)| password.to_owned()));
    }
    let in_body = [&auth.first_param, &auth.member, &options.first_params, &options.members];
    for SecretJson(json) in in_body {
        let json = json.trim_start_matches(',');
        for (open, close) in [("[", "]"), ("{", "}")] {
            let value: Value =
                serde_json::from_str(&format!("{open}{json}{close}")).unwrap_or_default();
            add_strings(&value, &mut secrets);
        }
    }
    secrets.retain(|secret| secret.len() >= MIN_LENGTH);
    // The longest first: a secret can contain another.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "…"))
}

fn add_strings(value: &Value, secrets: &mut Vec<String>) {
    match value {
        Value::String(text) => secrets.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| add_strings(item, secrets)),
        Value::Object(members) => members.values().for_each(|item| add_strings(item, secrets)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::arguments::ParamStyle;

    #[test]
    fn secrets_of_the_request_are_redacted() {
        let options = ForwardOptions::new("http://localhost/".parse().unwrap())
            .params(ParamStyle::Positional)
            .first_param(&json!("token:first"))
            .member("auth", &json!({"key": "member-key"}))
            .unwrap()
            .basic("ada", "pass-word")
            .unwrap()
            .header("X-Key", "header-key")
            .unwrap();
        let member = SecretJson::member("own", &json!("own-secret"));
        let auth = Authentication { member, ..Authentication::default() };
        let pair = STANDARD.encode("ada:pass-word");
        let said = format!(
            "token:first, member-key, pass-word, {pair}, Basic {pair}, header-key, own-secret, key"
        );
        let told = redact(&said, &options, &options.headers, &auth);
        assert_eq!(told, "…, …, …, …, …, …, …, key");
    }
}
