//! Resolution of `$ref` in a document.

use anyhow::{Context as _, bail};
use percent_encoding::percent_decode_str;
use serde_json::Value;

/// Maximum length of a chain of references.
const MAX_CHAIN: usize = 32;

/// An OpenRPC document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Document<'a>(pub(super) &'a Value);

impl<'a> Document<'a> {
    pub(super) fn find(self, reference: &str) -> anyhow::Result<&'a Value> {
        self.0.pointer(&pointer(reference)?).with_context(|| not_found(reference))
    }

    /// Returns a part of the document. If it is a reference, returns the part that it refers to.
    pub(super) fn resolve(self, mut part: &'a Value) -> anyhow::Result<&'a Value> {
        for _ in 0..MAX_CHAIN {
            let Some(reference) = reference(part) else { return Ok(part) };
            part = self.find(reference)?;
        }
        bail!("`$ref` to `{}` is circular", reference(part).unwrap_or_default())
    }
}

pub(super) fn reference(part: &Value) -> Option<&str> {
    part.get("$ref")?.as_str()
}

/// Returns the JSON pointer of a reference within the document.
pub(super) fn pointer(reference: &str) -> anyhow::Result<String> {
    let Some(fragment) = reference.strip_prefix('#') else {
        bail!(
            "`$ref` to `{reference}` is outside of the document; give the file with `--reference`"
        );
    };
    if !fragment.is_empty() && !fragment.starts_with('/') {
        bail!(not_found(reference));
    }
    let unescaped = percent_decode_str(fragment).decode_utf8().ok();
    unescaped.map(Into::into).with_context(|| not_found(reference))
}

fn not_found(reference: &str) -> String {
    format!("`$ref` to `{reference}` does not resolve")
}
