//! The bytes of all tools in one format, in the catalog's order. Each tool is followed by a comma, so that adjacent
//! tools are one slice.

use std::ops::Range;

use bytes::Bytes;

#[derive(Debug, Clone, Default)]
pub(crate) struct Arena {
    bytes: Bytes,
    /// Start of each tool, and at the end the total length.
    starts: Box<[usize]>,
}

impl Arena {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns `true` if both arenas share memory.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.bytes.as_ptr() == other.bytes.as_ptr()
    }

    pub(crate) fn tool(&self, ordinal: u32) -> Bytes {
        without_comma(self.run(ordinal, ordinal))
    }

    /// Returns the tools `first` to `last`, each followed by a comma.
    pub(crate) fn run(&self, first: u32, last: u32) -> Bytes {
        self.bytes.slice(self.range(first, last))
    }

    /// Returns the size of a tool with its comma.
    pub(crate) fn size(&self, ordinal: u32) -> usize {
        self.range(ordinal, ordinal).len()
    }

    fn range(&self, first: u32, last: u32) -> Range<usize> {
        let start = self.starts.get(first as usize).copied().unwrap_or_default();
        let end = self.starts.get(last as usize + 1).copied().unwrap_or(start);
        start.min(end)..end
    }
}

/// Removes the trailing comma.
pub(crate) fn without_comma(mut tools: Bytes) -> Bytes {
    tools.truncate(tools.len().saturating_sub(1));
    tools
}

#[derive(Debug)]
pub(super) struct ArenaBuilder {
    bytes: Vec<u8>,
    starts: Vec<usize>,
}

impl ArenaBuilder {
    pub(super) fn new(tools: usize, bytes: usize) -> Self {
        let mut starts = Vec::with_capacity(tools + 1);
        starts.push(0);
        Self { bytes: Vec::with_capacity(bytes), starts }
    }

    /// Appends the output of `write` as the next tool.
    pub(super) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.bytes.push(b',');
        self.starts.push(self.bytes.len());
    }

    /// Returns the arena. If `previous` has the same content, both arenas share memory.
    pub(super) fn finish(mut self, previous: Option<&Arena>) -> Arena {
        if let Some(previous) = previous.filter(|previous| previous.bytes == self.bytes) {
            return previous.clone();
        }
        self.bytes.shrink_to_fit();
        Arena { bytes: self.bytes.into(), starts: self.starts.into() }
    }
}
