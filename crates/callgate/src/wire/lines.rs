//! Reading lines of bounded length.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// Result of reading one line.
pub(crate) enum Line {
    /// The line without its line break.
    Text(Vec<u8>),
    /// A line longer than the limit. Only its first and last bytes are kept.
    #[cfg_attr(
        not(any(feature = "bridge", test)),
        expect(dead_code, reason = "only the bridge looks at the ends")
    )]
    TooLong(LineEnds),
    /// End of the input.
    End,
}

/// Number of bytes that are kept from each end of a line that is too long.
const MAX_END_BYTES: usize = 1024;

/// First and last bytes of a line.
#[derive(Debug)]
pub(crate) struct LineEnds {
    #[cfg_attr(
        not(any(feature = "bridge", test)),
        expect(dead_code, reason = "only the bridge looks for an id in it")
    )]
    pub(crate) head: Vec<u8>,
    pub(crate) tail: Vec<u8>,
}

impl LineEnds {
    fn of(line: &[u8], part: &[u8]) -> Self {
        let head = line.iter().chain(part).take(MAX_END_BYTES).copied().collect();
        let mut ends = Self { head, tail: Vec::new() };
        ends.push(line);
        ends.push(part);
        ends
    }

    fn push(&mut self, part: &[u8]) {
        let start = part.len().saturating_sub(MAX_END_BYTES);
        self.tail.extend_from_slice(part.get(start..).unwrap_or_default());
        let surplus = self.tail.len().saturating_sub(MAX_END_BYTES);
        self.tail.drain(..surplus);
    }
}

pub(crate) async fn read_line(
    input: &mut (impl AsyncBufRead + Unpin),
    limit: usize,
) -> io::Result<Line> {
    let mut line = Vec::new();
    let mut truncated: Option<LineEnds> = None;
    loop {
        let chunk = input.fill_buf().await?;
        if chunk.is_empty() {
            return Ok(match (truncated, line.is_empty()) {
                (Some(ends), _) => Line::TooLong(ends),
                (None, true) => Line::End,
                (None, false) => Line::Text(line),
            });
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let part = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
        match &mut truncated {
            Some(ends) => ends.push(part),
            None if line.len() + part.len() > limit => {
                truncated = Some(LineEnds::of(&line, part));
                line = Vec::new();
            }
            None => line.extend_from_slice(part),
        }
        let consumed = end.map_or(chunk.len(), |end| end + 1);
        input.consume(consumed);
        if end.is_some() {
            return Ok(truncated.map_or(Line::Text(line), Line::TooLong));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn both_ends_of_a_line_that_is_too_long_are_kept_for_any_chunk_size() {
        let line: Vec<u8> = (0..5000_usize).map(|n| b'a' + u8::try_from(n % 26).unwrap()).collect();
        let text = [&line[..], b"\nnext"].concat();
        for size in [1, 7, 1000, 1024, 4096, 10_000] {
            let mut input = tokio::io::BufReader::with_capacity(size, &text[..]);
            let Line::TooLong(ends) = read_line(&mut input, 3000).await.unwrap() else { panic!() };
            assert_eq!(
                (&ends.head[..], &ends.tail[..]),
                (&line[..MAX_END_BYTES], &line[5000 - MAX_END_BYTES..])
            );
            assert!(
                matches!(read_line(&mut input, 3000).await, Ok(Line::Text(next)) if next == b"next")
            );
        }
    }
}
