//! The bytes of all tools in one shape, in the catalog's order, with a comma behind each: so tools
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
        self.run(ordinal, ordinal)
    }

    /// The tools from one ordinal to another, commas between them and none at the end.
    pub(crate) fn run(&self, first: u32, last: u32) -> Bytes {
        self.with_comma(first, last).map_or_else(Bytes::new, |run| run.slice(..run.len() - 1))
    }

    /// The same, with a comma at the end.
    pub(crate) fn run_and_comma(&self, first: u32, last: u32) -> Bytes {
        self.with_comma(first, last).unwrap_or_default()
    }

    fn with_comma(&self, first: u32, last: u32) -> Option<Bytes> {
        let start = *self.starts.get(first as usize)?;
        let end = *self.starts.get(last as usize + 1)?;
        (start < end).then(|| self.bytes.slice(start..end))
    }

    /// How many bytes a tool and its comma take.
    pub(crate) fn size(&self, ordinal: u32) -> usize {
        let start = self.starts.get(ordinal as usize).copied().unwrap_or_default();
        let end = self.starts.get(ordinal as usize + 1).copied().unwrap_or(start);
        end - start
    }
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
