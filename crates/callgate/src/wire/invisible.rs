//! Invisible characters: models read them, but people do not see them.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Ranges of characters without a glyph: the general category `Cf` and the default-ignorable code points of Unicode 17,
/// and the separators of lines and paragraphs. Control characters are not included.
const INVISIBLE: [(char, char); 25] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

pub(crate) fn is_invisible(c: char) -> bool {
    c.is_control()
        || (!c.is_ascii() && INVISIBLE.iter().any(|(low, high)| (*low..=*high).contains(&c)))
}

/// Returns the invisible characters of a text, with their positions.
///
/// Line ends and tabs are not returned. Characters that emoji and several scripts need are not returned either: a
/// joiner (U+200C, U+200D) between two visible characters outside of ASCII, and one selector (U+FE0F, U+FE0E) after a
/// visible character.
pub fn invisible_characters(text: &str) -> impl Iterator<Item = (usize, char)> {
    // The preceding character, unless it was reported.
    let mut previous: Option<char> = None;
    text.char_indices().filter(move |&(at, c)| {
        let next = text.get(at + c.len_utf8()..).and_then(|rest| rest.chars().next());
        let is_reported = match c {
            '\n' | '\t' => false,
            '\r' => next != Some('\n'),
            '\u{200c}' | '\u{200d}' => ![previous, next].iter().all(|neighbour| {
                neighbour.is_some_and(|c| !c.is_ascii() && (is_selector(c) || !is_invisible(c)))
            }),
            c if is_selector(c) => previous.is_none_or(is_invisible),
            c => is_invisible(c),
        };
        previous = (!is_reported).then_some(c);
        is_reported
    })
}

fn is_selector(c: char) -> bool {
    matches!(c, '\u{fe0e}' | '\u{fe0f}')
}

/// Replaces each invisible character by an escape such as `\u{202e}`.
pub fn escape_invisible(text: &str) -> Cow<'_, str> {
    escape(text, |c, out| out.extend(c.escape_default()))
}

/// Replaces each invisible character of a JSON text by an escape such as `\u202e`. The JSON value does not change.
pub fn escape_invisible_json(json: &str) -> Cow<'_, str> {
    escape(json, |c, out| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    })
}

fn escape(text: &str, write: impl Fn(char, &mut String)) -> Cow<'_, str> {
    let mut found = invisible_characters(text).peekable();
    if found.peek().is_none() {
        return Cow::Borrowed(text);
    }
    let (mut out, mut end) = (String::with_capacity(text.len()), 0);
    for (at, c) in found {
        out.push_str(text.get(end..at).unwrap_or_default());
        write(c, &mut out);
        end = at + c.len_utf8();
    }
    out.push_str(text.get(end..).unwrap_or_default());
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Compares [`INVISIBLE`] with the Unicode tables of the engine for regular expressions.
    #[test]
    fn all_format_characters_are_invisible() {
        let pattern = json!({"pattern": r"^[\p{Cf}\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}]$"});
        let validator = jsonschema::draft202012::options()
            .with_pattern_options(jsonschema::PatternOptions::regex())
            .build(&pattern)
            .unwrap();
        for c in ('\u{a0}'..=char::MAX).chain(' '..='~') {
            let is_listed = validator.is_valid(&json!(c.to_string()));
            // Unassigned code points in the ranges of `INVISIBLE` are default-ignorable, too.
            assert!(is_invisible(c) == is_listed, "{}", c.escape_unicode());
        }
    }

    #[test]
    fn invisible_characters_are_escaped() {
        for (text, escaped) in [
            ("a\u{202e}b", r"a\u{202e}b"),
            ("\u{e0041}\u{e007f}", r"\u{e0041}\u{e007f}"),
            ("zero\u{200b}width", r"zero\u{200b}width"),
            ("soft\u{ad}hyphen", r"soft\u{ad}hyphen"),
            ("\u{1b}[31m\u{9b}\u{7f}\r", r"\u{1b}[31m\u{9b}\u{7f}\r"),
            ("\u{feff}start", r"\u{feff}start"),
            ("a\u{200d}b", r"a\u{200d}b"),
            ("ü\u{200d}\u{200d}ü", r"ü\u{200d}\u{200d}ü"),
            ("😀\u{fe0f}\u{fe0f}", "😀\u{fe0f}\\u{fe0f}"),
            ("a\u{fe01}\u{e0101}", r"a\u{fe01}\u{e0101}"),
            ("\u{200d}\u{fe0f}", r"\u{200d}\u{fe0f}"),
        ] {
            assert_eq!(escape_invisible(text), escaped);
        }
        let escaped = escape_invisible_json("\"\u{e0041}\u{202e}\"");
        assert_eq!(escaped, r#""\udb40\udc41\u202e""#);
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), "\u{e0041}\u{202e}");
    }

    #[test]
    fn characters_that_scripts_and_emoji_need_are_not_reported() {
        for text in [
            "two\nlines\r\nand\ttabs",
            "می\u{200c}خواهم",
            "क्\u{200d}ष",
            "👩\u{200d}👩\u{200d}👧",
            "❤\u{fe0f}\u{200d}🔥",
            "1\u{fe0f}\u{20e3}",
            "größer, 東京, עברית",
        ] {
            assert_eq!(invisible_characters(text).next(), None, "{text}");
        }
    }
}
