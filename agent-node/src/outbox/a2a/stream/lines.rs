//! Server-sent events, line by line (WHATWG HTML §9.2.6): only `data` matters here.

use bytes::{Buf, BytesMut};

/// An event, or a line that has not ended, is longer than is taken.
#[derive(Debug, PartialEq)]
pub(super) struct TooLong;

/// What has arrived and was not read yet.
#[derive(Debug)]
pub(super) struct Lines {
    most: usize,
    waiting: BytesMut,
    /// How much of what waits was looked at, and holds no end of a line.
    seen: usize,
    data: Vec<u8>,
    is_first: bool,
    after_return: bool,
}

impl Lines {
    /// Of events no longer than `most` bytes.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            waiting: BytesMut::new(),
            seen: 0,
            data: Vec::new(),
            is_first: true,
            after_return: false,
        }
    }

    /// Takes what arrived.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
    }

    /// The data of the next event that has arrived as a whole.
    pub(super) fn event(&mut self) -> Result<Option<Vec<u8>>, TooLong> {
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
            if self.data.len() + value.len() > self.most {
                return Err(TooLong);
            }
            if !self.data.is_empty() {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value);
        }
        if self.data.len() + self.waiting.len() > self.most { Err(TooLong) } else { Ok(None) }
    }

    /// The next line that has ended, by a line feed, a carriage return, or both.
    fn line(&mut self) -> Option<BytesMut> {
        if self.after_return && !self.waiting.is_empty() {
            self.after_return = false;
            if self.waiting[0] == b'\n' {
                self.waiting.advance(1);
            }
        }
        let ends = |byte: &u8| matches!(byte, b'\n' | b'\r');
        let Some(at) = self.waiting[self.seen..].iter().position(ends) else {
            self.seen = self.waiting.len();
            return None;
        };
        let mut line = self.waiting.split_to(self.seen + at);
        self.after_return = self.waiting.get_u8() == b'\r';
        self.seen = 0;
        if std::mem::take(&mut self.is_first) && line.starts_with(b"\xef\xbb\xbf") {
            line.advance(3);
        }
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn read(text: &str, chunk: usize) -> Vec<String> {
        let mut lines = Lines::new(1_000);
        let mut found = Vec::new();
        for bytes in text.as_bytes().chunks(chunk) {
            lines.take(bytes);
            while let Some(data) = lines.event().unwrap() {
                found.push(String::from_utf8(data).unwrap());
            }
        }
        found
    }

    #[test]
    fn events_are_the_same_however_they_are_cut() {
        let text = "\u{feff}data: one\n\n: a comment\r\nevent: x\rdata:two\r\ndata: and more\r\n\r\n\
                    id: 7\ndatabase: no\ndata: thr\u{e9}e\r\rdata: never ended\n";
        for chunk in [1, 2, 3, 7, 1_000] {
            assert_eq!(read(text, chunk), ["one", "two\nand more", "thr\u{e9}e"], "by {chunk}");
        }
    }

    #[test]
    fn what_is_too_long_is_refused_before_it_ends() {
        let mut lines = Lines::new(100);
        lines.take(b"data: ");
        lines.take(&[b'x'; 90]);
        assert_eq!(lines.event(), Ok(None));
        lines.take(&[b'x'; 20]);
        assert_eq!(lines.event(), Err(TooLong));
        let mut many = Lines::new(100);
        many.take("data: 0123456789\n".repeat(11).as_bytes());
        assert_eq!(many.event(), Err(TooLong));
    }

    #[test]
    fn a_long_event_takes_no_longer_than_its_bytes() {
        let mut lines = Lines::new(64 << 20);
        let begun = Instant::now();
        lines.take(b"data: ");
        for _ in 0..2_000 {
            lines.take(&[b'x'; 8 << 10]);
            assert_eq!(lines.event(), Ok(None));
        }
        lines.take(b"\n\n");
        assert_eq!(lines.event().unwrap().map(|data| data.len()), Some(2_000 * (8 << 10)));
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?} for 16 MiB", begun.elapsed());
    }
}
