//! What `$ref`s in a document lead to.

use serde_json::Value;
use thiserror::Error;

/// So many references may lead to one another.
const MAX_CHAIN: usize = 32;

/// Why a reference cannot be followed.
#[derive(Debug, Error)]
pub(super) enum ReferenceError {
    #[error(
        "`$ref` to `{0}`, which is outside of the document and is not read; `--reference` names a file \
         for it"
    )]
    Foreign(String),
    #[error("`$ref` to `{0}`, which leads nowhere")]
    Nowhere(String),
    #[error("`$ref` to `{0}`, which leads in a circle")]
    Circle(String),
}

/// A document, for following references.
#[derive(Debug, Clone, Copy)]
pub(super) struct References<'a> {
    document: &'a Value,
}

impl<'a> References<'a> {
    pub(super) fn new(document: &'a Value) -> Self {
        Self { document }
    }

    /// What a reference leads to.
    pub(super) fn find(self, reference: &str) -> Result<&'a Value, ReferenceError> {
        let pointer = pointer(reference)?;
        let nowhere = || ReferenceError::Nowhere(reference.to_owned());
        self.document.pointer(&pointer).ok_or_else(nowhere)
    }

    /// A part of the document, or what it refers to.
    pub(super) fn follow(self, mut part: &'a Value) -> Result<&'a Value, ReferenceError> {
        for _ in 0..MAX_CHAIN {
            let Some(reference) = reference(part) else { return Ok(part) };
            part = self.find(reference)?;
        }
        Err(ReferenceError::Circle(reference(part).unwrap_or_default().to_owned()))
    }
}

/// What a part of the document refers to.
pub(super) fn reference(part: &Value) -> Option<&str> {
    part.get("$ref")?.as_str()
}

/// A reference within the document as a JSON pointer.
pub(super) fn pointer(reference: &str) -> Result<String, ReferenceError> {
    let Some(fragment) = reference.strip_prefix('#') else {
        return Err(ReferenceError::Foreign(reference.to_owned()));
    };
    let nowhere = || ReferenceError::Nowhere(reference.to_owned());
    if !fragment.is_empty() && !fragment.starts_with('/') {
        return Err(nowhere());
    }
    unescaped(fragment).ok_or_else(nowhere)
}

/// A fragment without its percent signs.
fn unescaped(fragment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}
