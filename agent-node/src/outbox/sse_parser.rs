//! A parser of server-sent events (WHATWG HTML §9.2.6). It reads `data` fields only, looks at every byte once, and refuses an
//! event that is too long before the event ends.

use bytes::{Buf, BytesMut};

/// An event, or a line without an end, is longer than the limit.
#[derive(Debug, PartialEq)]
pub(crate) struct SseEventTooLong;

/// Bytes that have arrived, and the event that they have begun.
#[derive(Debug)]
pub(crate) struct SseParser {
    max_bytes: usize,
    buffer: BytesMut,
    /// The length of the beginning of `buffer` that holds no end of a line.
    scanned: usize,
    data: Vec<u8>,
    is_first: bool,
    after_carriage_return: bool,
}

impl SseParser {
    /// A parser of events of at most `max_bytes`.
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            buffer: BytesMut::new(),
            scanned: 0,
            data: Vec::new(),
            is_first: true,
            after_carriage_return: false,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    pub(crate) fn next_event(&mut self) -> Result<Option<Vec<u8>>, SseEventTooLong> {
        while let Some(line) = self.line() {
            if line.is_empty() {
                if !self.data.is_empty() {
                    return Ok(Some(std::mem::take(&mut self.data)));
                }
                continue;
            }
            let Some(value) =
                line.strip_prefix(b"data").filter(|rest| matches!(rest.first(), None | Some(b':')))
            else {
                continue;
            };
            let value = value.strip_prefix(b":").unwrap_or(value);
            let value = value.strip_prefix(b" ").unwrap_or(value);
            if self.data.len() + value.len() > self.max_bytes {
                return Err(SseEventTooLong);
            }
            if !self.data.is_empty() {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value);
        }
        if self.data.len() + self.buffer.len() > self.max_bytes { Err(SseEventTooLong) } else { Ok(None) }
    }

    /// The next complete line. It ends with a line feed, a carriage return, or both.
    fn line(&mut self) -> Option<BytesMut> {
        if self.after_carriage_return && !self.buffer.is_empty() {
            self.after_carriage_return = false;
            if self.buffer[0] == b'\n' {
                self.buffer.advance(1);
            }
        }
        let ends = |byte: &u8| matches!(byte, b'\n' | b'\r');
        let Some(at) = self.buffer[self.scanned..].iter().position(ends) else {
            self.scanned = self.buffer.len();
            return None;
        };
        let mut line = self.buffer.split_to(self.scanned + at);
        self.after_carriage_return = self.buffer.get_u8() == b'\r';
        self.scanned = 0;
        if std::mem::take(&mut self.is_first) && line.starts_with(b"\xef\xbb\xbf") {
            line.advance(3);
        }
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, Instant};

    fn read(text: &str, chunk: usize) -> Vec<String> {
        let mut parser = SseParser::new(1_000);
        let mut found = Vec::new();
        for bytes in text.as_bytes().chunks(chunk) {
            parser.push(bytes);
            while let Some(data) = parser.next_event().unwrap() {
                found.push(String::from_utf8(data).unwrap());
            }
        }
        found
    }

    #[test]
    fn events_do_not_depend_on_chunk_boundaries() {
        let text = "\u{feff}data: one\n\n: a comment\r\nevent: x\rdata:two\r\ndata: and more\r\n\r\n\
                    id: 7\ndatabase: no\ndata: thr\u{e9}e\r\rdata: never ended\n";
        for chunk in [1, 2, 3, 7, 1_000] {
            assert_eq!(read(text, chunk), ["one", "two\nand more", "thr\u{e9}e"], "by {chunk}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_give_the_same_events(
            text in "(data: ?|id:|:|\r|\n|\r\n|[a-z\u{e9}]){0,60}",
            chunk in 1_usize..20,
        ) {
            prop_assert_eq!(read(&text, chunk), read(&text, 10_000));
        }
    }

    #[test]
    fn an_event_that_is_too_long_is_refused_before_it_ends() {
        let mut parser = SseParser::new(100);
        parser.push(b"data: ");
        parser.push(&[b'x'; 90]);
        assert_eq!(parser.next_event(), Ok(None));
        parser.push(&[b'x'; 20]);
        assert_eq!(parser.next_event(), Err(SseEventTooLong));
        let mut many = SseParser::new(100);
        many.push("data: 0123456789\n".repeat(11).as_bytes());
        assert_eq!(many.next_event(), Err(SseEventTooLong));
    }

    #[test]
    fn a_long_event_is_read_in_linear_time() {
        let mut parser = SseParser::new(64 << 20);
        let begun = Instant::now();
        parser.push(b"data: ");
        for _ in 0..2_000 {
            parser.push(&[b'x'; 8 << 10]);
            assert_eq!(parser.next_event(), Ok(None));
        }
        parser.push(b"\n\n");
        assert_eq!(parser.next_event().unwrap().map(|data| data.len()), Some(2_000 * (8 << 10)));
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?} for 16 MiB", begun.elapsed());
    }
}
