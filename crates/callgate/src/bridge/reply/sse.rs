//! Decodes server-sent events from chunks of bytes, with a limit for the size of an event.

use std::time::Duration;

use crate::http_client::body::BodyError;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// Value of `event`; empty if it is missing.
    pub(crate) kind: String,
    /// The lines of `data`, separated by LF.
    pub(crate) data: String,
}

#[derive(Debug, Default)]
pub(crate) struct SseDecoder {
    limit: usize,
    line: Vec<u8>,
    has_first_line: bool,
    /// Whether the last line ended with CR. An LF that follows belongs to the same line break.
    after_cr: bool,
    kind: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// Id of the current event. At the end of the event, it becomes `last_event_id`.
    id: Option<String>,
    last_event_id: Option<String>,
    retry: Option<Duration>,
}

impl SseDecoder {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    pub(crate) fn last_event_id(&self) -> Option<&str> {
        self.last_event_id.as_deref()
    }

    /// Returns the delay before reconnecting, if the server sent one.
    pub(crate) fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Adds bytes. Returns the events that are complete now.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<SseEvent>, BodyError> {
        let mut events = Vec::new();
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                bytes = bytes.get(1..).unwrap_or_default();
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let part = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
            if self.line.len() + self.data.len() + self.kind.len() + part.len() > self.limit {
                return Err(BodyError::TooLong(self.limit));
            }
            self.line.extend_from_slice(part);
            let Some(end) = end else { break };
            self.after_cr = bytes.get(end) == Some(&b'\r');
            bytes = bytes.get(end + 1..).unwrap_or_default();
            events.extend(self.end_line());
        }
        Ok(events)
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let line = std::mem::take(&mut self.line);
        let mut text = line.as_slice();
        if !std::mem::replace(&mut self.has_first_line, true) {
            text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        }
        let event = if text.is_empty() {
            self.end_event()
        } else {
            self.field(text);
            None
        };
        // Reuses the memory for the next line.
        self.line = line;
        self.line.clear();
        event
    }

    fn field(&mut self, line: &[u8]) {
        let colon = line.iter().position(|byte| *byte == b':');
        let name = line.get(..colon.unwrap_or(line.len())).unwrap_or_default();
        let value = colon.and_then(|colon| line.get(colon + 1..)).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"event" => self.kind = value.to_vec(),
            b"id" if !value.contains(&0) => {
                self.id = Some(String::from_utf8_lossy(value).into_owned());
            }
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let text = std::str::from_utf8(value).unwrap_or_default();
                self.retry = text.parse().ok().map(Duration::from_millis);
            }
            // A comment or an unknown field.
            _ => {}
        }
    }

    fn end_event(&mut self) -> Option<SseEvent> {
        if let Some(id) = self.id.take() {
            // An empty id resets the last event id.
            self.last_event_id = Some(id).filter(|id| !id.is_empty());
        }
        let (kind, data) = (std::mem::take(&mut self.kind), std::mem::take(&mut self.data));
        std::mem::take(&mut self.has_data)
            .then(|| SseEvent { kind: text_of(kind), data: text_of(data) })
    }
}

fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMIT: usize = 1 << 16;

    fn decode(bytes: &[u8]) -> (Vec<SseEvent>, SseDecoder) {
        let mut decoder = SseDecoder::new(LIMIT);
        let events = decoder.push(bytes).unwrap();
        (events, decoder)
    }

    fn data(text: &str) -> Vec<String> {
        decode(text.as_bytes()).0.into_iter().map(|event| event.data).collect()
    }

    #[test]
    fn data_lines_are_joined_and_one_space_after_the_colon_is_removed() {
        assert_eq!(data("data: a\ndata:b\ndata:  c\ndata\n\n"), ["a\nb\n c\n"]);
        assert_eq!(data("data: a\r\n\r\ndata: b\r\rdata: c\n\n"), ["a", "b", "c"]);
        assert_eq!(data("\u{feff}data: a\n\n: comment\nother: x\n\n"), ["a"]);
        assert_eq!(data("data: not at its end\n"), [""; 0]);
    }

    #[test]
    fn an_event_without_data_is_dropped_and_an_event_with_empty_data_is_kept() {
        assert_eq!(data("event: x\n\n"), [""; 0]);
        assert_eq!(data("id: 1\ndata:\n\n"), [""]);
        let (events, _) = decode(b"event: ping\ndata: x\n\ndata: y\n\n");
        assert_eq!(events[0].kind, "ping");
        assert_eq!(events[1].kind, "", "the kind applies to one event");
    }

    #[test]
    fn an_event_id_takes_effect_at_the_end_of_its_event_and_persists() {
        let (_, mut decoder) = decode(b"id: 7\nretry: 250\ndata: x\n");
        assert_eq!(decoder.last_event_id(), None);
        assert_eq!(decoder.retry(), Some(Duration::from_millis(250)));
        decoder.push(b"\ndata: y\n\nretry: soon\n\n").unwrap();
        assert_eq!(decoder.last_event_id(), Some("7"));
        assert_eq!(decoder.retry(), Some(Duration::from_millis(250)));
        decoder.push(b"id: a\0b\n\n").unwrap();
        assert_eq!(decoder.last_event_id(), Some("7"));
        decoder.push(b"id\n\n").unwrap();
        assert_eq!(decoder.last_event_id(), None);
    }

    #[test]
    fn an_event_beyond_the_limit_is_an_error() {
        let push_repeatedly = |line: &[u8]| {
            let mut decoder = SseDecoder::new(1000);
            (0..200).try_for_each(|_| decoder.push(line).map(|_| ()))
        };
        for line in [&b"0123456789"[..], b"data: 0123456789\n", b": 0123456789"] {
            assert_eq!(push_repeatedly(line), Err(BodyError::TooLong(1000)));
        }
        assert_eq!(push_repeatedly(b"data: 0123456789\n\n: comment\n"), Ok(()));
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_events(
            lines in proptest::collection::vec(
                "(data|id|event|retry|x|)(:|: |)([a-zé0-9]{0,6})(\n|\r|\r\n|\n\n|\r\r|\r\n\r\n)", 0..40),
            has_mark in any::<bool>(),
            chunk_sizes in proptest::collection::vec(1usize..9, 1..30),
        ) {
            let mut bytes = if has_mark { BYTE_ORDER_MARK.to_vec() } else { Vec::new() };
            bytes.extend(lines.concat().into_bytes());
            let (expected_events, expected_decoder) = decode(&bytes);
            let mut decoder = SseDecoder::new(LIMIT);
            let (mut events, mut rest) = (Vec::new(), bytes.as_slice());
            let mut chunk_sizes = chunk_sizes.into_iter().cycle();
            while !rest.is_empty() {
                let (chunk, remaining) = rest.split_at(chunk_sizes.next().unwrap().min(rest.len()));
                events.extend(decoder.push(chunk).unwrap());
                rest = remaining;
            }
            prop_assert_eq!(expected_events, events);
            prop_assert_eq!(expected_decoder.last_event_id(), decoder.last_event_id());
            prop_assert_eq!(expected_decoder.retry(), decoder.retry());
        }

        #[test]
        fn any_bytes_are_decoded_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = SseDecoder::new(100).push(&bytes);
        }
    }
}
