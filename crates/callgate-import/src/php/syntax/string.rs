//! String literals: quoted, heredoc and nowdoc.

use tree_sitter::Node;

use super::parse::{children, field, text};

/// Returns the value of a literal, or `None` if it contains variables or invalid UTF-8.
pub(super) fn read(node: Node<'_>, source: &str) -> Option<String> {
    let raw = text(node, source);
    match node.kind() {
        "string" => {
            let raw = raw.strip_prefix(['b', 'B']).unwrap_or(raw);
            let raw = raw.strip_prefix('\'')?.strip_suffix('\'')?;
            Some(unescape_single_quoted(raw))
        }
        "encapsed_string" => {
            let raw = raw.strip_prefix(['b', 'B']).unwrap_or(raw);
            let raw = raw.strip_prefix('"')?.strip_suffix('"')?;
            is_constant(node).then(|| unescape_double_quoted(raw, Some('"')))?
        }
        "heredoc" => {
            let is_constant = field(node, "value").is_none_or(is_constant);
            is_constant.then(|| unescape_double_quoted(&heredoc_body(raw)?, None))?
        }
        "nowdoc" => heredoc_body(raw),
        _ => None,
    }
}

fn is_constant(node: Node<'_>) -> bool {
    children(node).iter().all(|part| matches!(part.kind(), "string_content" | "escape_sequence"))
}

/// Unescapes a literal in single quotes, in which only the quote and the backslash are escaped.
fn unescape_single_quoted(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut chars = raw.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some(next @ ('\\' | '\''))) => {
                text.push(*next);
                chars.next();
            }
            _ => text.push(c),
        }
    }
    text
}

/// Returns the lines between the two delimiters, without the indentation of the closing delimiter.
fn heredoc_body(raw: &str) -> Option<String> {
    let mut lines: Vec<&str> = raw.lines().collect();
    let end = lines.pop()?;
    if lines.is_empty() {
        return None;
    }
    lines.remove(0);
    let indent = end.len() - end.trim_start().len();
    let unindent = |line: &&str| {
        let space = line.len() - line.trim_start().len();
        line.get(space.min(indent)..).unwrap_or_default().to_owned()
    };
    Some(lines.iter().map(unindent).collect::<Vec<_>>().join("\n"))
}

/// Unescapes a literal in double quotes.
fn unescape_double_quoted(raw: &str, quote: Option<char>) -> Option<String> {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        rest = unescape_sequence(after, quote, &mut bytes)?;
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).ok()
}

/// Unescapes the characters after a backslash. Returns the remaining text.
fn unescape_sequence<'r>(
    text: &'r str,
    quote: Option<char>,
    bytes: &mut Vec<u8>,
) -> Option<&'r str> {
    let Some(c) = text.chars().next() else {
        bytes.push(b'\\');
        return Some(text);
    };
    let rest = text.get(c.len_utf8()..).unwrap_or_default();
    let byte = match c {
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0b,
        'e' => 0x1b,
        'f' => 0x0c,
        '\\' => b'\\',
        '$' => b'$',
        '"' if quote == Some('"') => b'"',
        '0'..='7' => {
            let (digits, rest) = digits(text, 3, 8);
            // In PHP, a number that is too large for a byte overflows.
            let number = u32::from_str_radix(digits, 8).ok()? & 0xff;
            bytes.push(u8::try_from(number).ok()?);
            return Some(rest);
        }
        'x' if rest.starts_with(|c: char| c.is_ascii_hexdigit()) => {
            let (digits, rest) = digits(rest, 2, 16);
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            return Some(rest);
        }
        'u' if rest.starts_with('{') => {
            let (digits, after) = rest.get(1..)?.split_once('}')?;
            let c = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            return Some(after);
        }
        _ => {
            // This is not an escape sequence.
            bytes.push(b'\\');
            return Some(text);
        }
    };
    bytes.push(byte);
    Some(rest)
}

fn digits(text: &str, max: usize, radix: u32) -> (&str, &str) {
    let count = text.chars().take(max).take_while(|c| c.is_digit(radix)).count();
    text.split_at_checked(count).unwrap_or((text, ""))
}
