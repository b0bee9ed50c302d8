//! Removes the secrets of a request from messages of the service.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{COOKIE, HeaderMap};
use serde_json::Value;

use crate::upstream::forward::{Authentication, ForwardOptions, SecretJson};
use crate::wire::percent;

/// Minimum length of a secret that is removed. Shorter strings occur by chance.
const MIN_LENGTH: usize = 4;

/// The secrets of a request, in each form in which a service may repeat them. The longest come first, because a secret
/// can contain another one.
#[derive(Clone)]
pub(crate) struct Secrets(Vec<String>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets(…)")
    }
}

impl Secrets {
    pub(crate) fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let forms = secrets.into_iter().flat_map(|secret| {
            let quoted = Value::from(secret.as_str()).to_string();
            let escaped = quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned();
            [percent::segment(&secret), escaped, secret]
        });
        let mut all: Vec<String> = forms.filter(|secret| secret.len() >= MIN_LENGTH).collect();
        all.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        all.dedup();
        Self(all)
    }

    /// Returns the secrets in the headers, the body and the URL of a request.
    pub(crate) fn of(options: &ForwardOptions, headers: &HeaderMap, auth: &Authentication) -> Self {
        let mut secrets = Vec::new();
        let sensitive = headers.values().filter(|value| value.is_sensitive());
        for value in sensitive.filter_map(|value| value.to_str().ok()) {
            let secret = value.split_once(' ').map_or(value, |(_, secret)| secret);
            secrets.extend([value.to_owned(), secret.to_owned()]);
            let basic = STANDARD.decode(secret).ok().and_then(|pair| String::from_utf8(pair).ok());
            let password = basic.as_deref().and_then(|pair| pair.split_once(':'));
            secrets.extend(password.map(|(_, password)| password.to_owned()));
        }
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let cookies = cookies.flat_map(|value| value.split("; "));
        secrets.extend(cookies.filter_map(|pair| Some(pair.split_once('=')?.1.to_owned())));
        let query = options.target.uri().query().unwrap_or_default();
        secrets.extend(query.split('&').map(|pair| {
            let value = pair.split_once('=').map_or(pair, |(_, value)| value);
            value.to_owned()
        }));
        let in_body = auth.all_parts().flat_map(|parts| [&parts.first_param, &parts.member]);
        for SecretJson(json) in in_body.chain([&options.first_params, &options.members]) {
            let json = json.trim_start_matches(',');
            for (open, close) in [("[", "]"), ("{", "}")] {
                let value: Value =
                    serde_json::from_str(&format!("{open}{json}{close}")).unwrap_or_default();
                add_texts(&value, &mut secrets);
            }
        }
        Self::new(secrets)
    }

    /// Adds further secrets.
    pub(crate) fn with(self, secrets: impl IntoIterator<Item = String>) -> Self {
        Self::new(self.0.into_iter().chain(secrets))
    }

    pub(crate) fn redact(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "…"))
    }

    /// Returns the length of the longest secret, in bytes.
    pub(crate) fn longest_len(&self) -> usize {
        self.0.first().map_or(0, String::len)
    }
}

/// Adds the strings and numbers in a value, as text.
pub(crate) fn add_texts(value: &Value, secrets: &mut Vec<String>) {
    match value {
        Value::String(text) => secrets.push(text.clone()),
        Value::Number(number) => secrets.push(number.to_string()),
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
    fn secrets_of_the_request_are_redacted() {
        let options = ForwardOptions::new("http://localhost/?key=in-query".parse().unwrap())
            .params(ParamStyle::Positional)
            .first_param(&json!("token:first"))
            .member("auth", &json!({"key": "member-key"}))
            .unwrap()
            .basic("ada", "pass \"word")
            .unwrap()
            .header("X-Key", "header-key")
            .unwrap();
        let mut auth = Authentication::default();
        auth.parts.member = SecretJson::member("own", &json!("own-secret"));
        let pair = STANDARD.encode("ada:pass \"word");
        let text = format!(
            "token:first, member-key, pass \"word, {}, pass%20%22word, {pair}, Basic {pair}, header-key, \
             own-secret, key=in-query",
            json!("pass \"word")
        );
        let secrets = Secrets::of(&options, &options.headers, &auth);
        assert_eq!(secrets.redact(&text), "…, …, …, \"…\", …, …, …, …, …, key=…");
    }
}
