//! Text of files, and text for one line of output.

use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use callgate::internal::escape_invisible;

use crate::hinted::hinted;
use crate::limits::MAX_DOCUMENT_BYTES;

/// Returns a file's text, without a byte order mark.
pub fn read_file(file: &Path) -> anyhow::Result<String> {
    let display = file.display();
    let context = || format!("cannot read `{display}`");
    let file = std::fs::File::open(file).with_context(context)?;
    let mut text = String::new();
    // A device, or a file that grows, can be longer than its metadata says.
    file.take(MAX_DOCUMENT_BYTES + 1).read_to_string(&mut text).with_context(context)?;
    if text.len() as u64 > MAX_DOCUMENT_BYTES {
        return Err(hinted(
            format!("`{display}` has more than {MAX_DOCUMENT_BYTES} bytes"),
            "split the file, and import the parts",
        ));
    }
    Ok(text.strip_prefix('\u{feff}').map(ToOwned::to_owned).unwrap_or(text))
}

/// Returns a number and a noun: `1 method`, `2 methods`.
pub fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Escapes control characters and invisible characters. The text then stays on one line, cannot control the terminal,
/// and hides nothing.
pub fn one_line(text: &str) -> String {
    escape_invisible(text).replace('\r', "\\r").replace('\n', "\\n").replace('\t', "\\t")
}

/// Returns a text as one line, truncated after `max_chars` characters.
pub fn shortened(text: &str, max_chars: usize) -> String {
    let line = one_line(text);
    match line.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}
