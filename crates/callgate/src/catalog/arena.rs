//! The bytes of all tools in one format, in the catalog's order, with a comma behind each: so tools
//! that stand next to each other are one slice.

use bytes::Bytes;

#[derive(Debug, Clone, Default)]
pub(crate) struct Arena {
    bytes: Bytes,
    /// Where each tool starts, and where the next one would.
    starts: Box<[usize]>,
}

impl Arena {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether both are the same memory.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.bytes.as_ptr() == other.bytes.as_ptr()
    }

    /// The tool with this ordinal.
    pub(crate) fn tool(&self, ordinal: u32) -> Bytes {
        without_comma(self.run(ordinal, ordinal))
    }

    /// The tools from one ordinal to another, with a comma behind each.
    pub(crate) fn run(&self, first: u32, last: u32) -> Bytes {
        let start = self.starts.get(first as usize).copied().unwrap_or_default();
        let end = self.starts.get(last as usize + 1).copied().unwrap_or(start);
        self.bytes.slice(start.min(end)..end)
    }

    /// How many bytes a tool and its comma take.
    pub(crate) fn size(&self, ordinal: u32) -> usize {
        let start = self.starts.get(ordinal as usize).copied().unwrap_or_default();
        let end = self.starts.get(ordinal as usize + 1).copied().unwrap_or(start);
        end - start
    }
}

/// Tools without the comma behind the last.
pub(crate) fn without_comma(mut tools: Bytes) -> Bytes {
    tools.truncate(tools.len().saturating_sub(1));
    tools
}

/// Makes an arena, tool by tool.
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

    /// Appends what `write` writes as the next tool.
    pub(super) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.bytes.push(b',');
        self.starts.push(self.bytes.len());
    }

    /// The arena; it is `twin` where both hold the same.
    pub(super) fn finish(mut self, twin: Option<&Arena>) -> Arena {
        if let Some(twin) = twin.filter(|twin| twin.bytes == self.bytes) {
            return twin.clone();
        }
        self.bytes.shrink_to_fit();
        Arena { bytes: self.bytes.into(), starts: self.starts.into() }
    }
}
