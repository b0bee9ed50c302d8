//! What a service says, without the secrets that it was sent.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use serde_json::Value;

use super::credential::Authentication;
use super::options::{ForwardOptions, Hidden};

/// Shorter texts are no secrets, and are part of many words.
const MIN_LENGTH: usize = 4;

/// Removes from a text the secrets of a request with these headers and credentials.
pub(super) fn without_secrets(
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
    for Hidden(json) in in_body {
        let json = json.trim_start_matches(',');
        for (open, close) in [("[", "]"), ("{", "}")] {
            let value: Value =
                serde_json::from_str(&format!("{open}{json}{close}")).unwrap_or_default();
            add_texts(&value, &mut secrets);
        }
    }
    secrets.retain(|secret| secret.len() >= MIN_LENGTH);
    // One may be a part of another.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "…"))
}

fn add_texts(value: &Value, secrets: &mut Vec<String>) {
    match value {
        Value::String(text) => secrets.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| add_texts(item, secrets)),
        Value::Object(members) => members.values().for_each(|item| add_texts(item, secrets)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::arguments::ParamStyle;

    #[test]
    fn what_was_sent_is_not_repeated() {
        let options = ForwardOptions::new("http://localhost/".parse().unwrap())
            .params(ParamStyle::Positional)
            .first_param(&json!("token:first"))
            .member("auth", &json!({"key": "member-key"}))
            .unwrap()
            .basic("ada", "pass-word")
            .unwrap()
            .header("X-Key", "header-key")
            .unwrap();
        let member = Hidden::member("own", &json!("own-secret"));
        let auth = Authentication { member, ..Authentication::default() };
        let pair = STANDARD.encode("ada:pass-word");
        let said = format!(
            "token:first, member-key, pass-word, {pair}, Basic {pair}, header-key, own-secret, key"
        );
        let told = without_secrets(&said, &options, &options.headers, &auth);
        assert_eq!(told, "…, …, …, …, …, …, …, key");
    }
}
