//! Text of a response that is not a JSON-RPC reply, made safe for the log and for agents.

use std::fmt;

use crate::upstream::forward::auth::redact::Secrets;
use crate::wire::invisible::is_invisible;

/// Maximum number of characters of the text that are shown.
const MAX_SHOWN: usize = 200;

/// Maximum number of bytes of the text that are searched for secrets.
const MAX_SEARCHED: usize = 16 * 1024;

/// The beginning of a response body. `Display` and `Debug` show nothing until [`ServiceText::redacted`] is called.
#[derive(Clone)]
pub(crate) enum ServiceText {
    Raw { text: Box<str>, is_truncated: bool },
    Redacted(Box<str>),
}

impl ServiceText {
    pub(crate) fn new(body: &str) -> Self {
        let text = body.get(..body.floor_char_boundary(MAX_SEARCHED)).unwrap_or_default();
        Self::Raw { text: text.into(), is_truncated: text.len() < body.len() }
    }

    /// Returns the text without secrets of the request, without HTML tags, and without invisible characters.
    pub(crate) fn redacted(&self, secrets: &Secrets) -> Self {
        let Self::Raw { text: raw, is_truncated } = self else { return self.clone() };
        let mut text = secrets.redact(&visible_text(raw));
        if *is_truncated {
            // The end of the truncated text may be a part of a secret, so it is removed.
            text.truncate(
                text.floor_char_boundary(text.len().saturating_sub(secrets.longest_len())),
            );
        }
        if let Some((end, _)) = text.char_indices().nth(MAX_SHOWN) {
            text.truncate(end);
            text.push('…');
        }
        Self::Redacted(text.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Raw { .. } => "",
            Self::Redacted(text) => text,
        }
    }
}

impl Default for ServiceText {
    fn default() -> Self {
        Self::Redacted(Box::default())
    }
}

/// Writes a colon and the text, or nothing if there is no text.
impl fmt::Display for ServiceText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.as_str();
        if text.is_empty() { Ok(()) } else { write!(f, ": \"{text}\"") }
    }
}

impl fmt::Debug for ServiceText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Returns the visible text with single spaces. Tags of HTML and XML become spaces.
fn visible_text(raw: &str) -> String {
    let raw = raw.trim_start_matches('\u{feff}').trim();
    let (is_markup, mut is_tag, mut text) = (raw.starts_with('<'), false, String::new());
    for c in raw.chars() {
        let is_end = is_tag && c == '>';
        is_tag = !is_end && (is_tag || is_markup && c == '<');
        if is_tag || is_end || c.is_whitespace() {
            if !text.is_empty() && !text.ends_with(' ') {
                text.push(' ');
            }
        } else if !is_invisible(c) {
            text.push(c);
        }
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redact(body: &str, secrets: &[&str]) -> String {
        let secrets = Secrets::new(secrets.iter().map(|&secret| secret.to_owned()));
        ServiceText::new(body).redacted(&secrets).as_str().to_owned()
    }

    #[test]
    fn text_is_truncated_and_has_no_tags_or_invisible_characters() {
        assert_eq!(redact("Work queue\r\n depth exceeded\n", &[]), "Work queue depth exceeded");
        assert_eq!(redact("a\u{202e}b\u{0}\u{1b}[31mc\u{e0041}", &[]), "ab[31mc");
        assert_eq!(redact(&"é".repeat(201), &[]), format!("{}…", "é".repeat(200)));
        assert_eq!(redact(&"é".repeat(200), &[]), "é".repeat(200));
        let page = "<html><title>502</title><body class='a>b'><h1>Bad\ngateway</h1></html>";
        assert_eq!(redact(page, &[]), "502 b'> Bad gateway");
        assert_eq!(redact("1 < 2 > 1", &[]), "1 < 2 > 1");
    }

    #[test]
    fn no_part_of_a_secret_is_shown() {
        let secret = "s3cret-".repeat(10);
        for start in 150..250 {
            let body = format!("{}{secret}", "x".repeat(start));
            assert!(!redact(&body, &[&secret]).contains("s3"), "{start}");
        }
        for repeated in [233, 234, 235, 400] {
            assert!(!redact(&secret.repeat(repeated), &[&secret]).contains("s3"), "{repeated}");
        }
        assert!(!redact("s3\u{200b}cret", &["s3cret"]).contains("cret"));
        let unredacted = ServiceText::new("s3cret");
        assert_eq!(format!("{unredacted}{unredacted:?}"), "\"\"");
    }
}
