//! Finds lines of an HTTP/1.1 head that a bare LF ends. httparse takes such a line (RFC 9112 §2.2 lets it), but a proxy that
//! does not sees other requests than this server does.

/// Reads the bytes of a connection beside actix's parser.
#[derive(Debug, Default)]
pub(super) struct HeadCheck {
    part: RequestPart,
    /// The beginning of the present line, at most [`MAX_NAME`] bytes.
    line: Vec<u8>,
    /// Length of the present line.
    length: usize,
    /// The last byte of the present line.
    last: u8,
    body: BodyFraming,
    has_begun: bool,
}

/// The part of a request to which the next byte belongs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum RequestPart {
    /// The request line, or a field.
    #[default]
    Head,
    /// The body, or the data of a chunk and the line end behind it.
    Bytes(u64),
    ChunkSize,
    /// The fields behind the last chunk.
    Trailers,
}

/// The body that the fields of the present head announce.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum BodyFraming {
    #[default]
    None,
    Length(u64),
    Chunks,
}

/// How much of a line is needed: the name and value of a field that announces a body.
const MAX_NAME: usize = 128;

/// A line ends with a bare LF.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BareLineFeed;

impl HeadCheck {
    /// Checks the next bytes of the connection.
    pub(super) fn check(&mut self, mut bytes: &[u8]) -> Result<(), BareLineFeed> {
        while !bytes.is_empty() {
            if let RequestPart::Bytes(left) = self.part {
                let skipped = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                bytes = bytes.get(skipped..).unwrap_or_default();
                self.part = match (left - skipped as u64, self.body) {
                    (0, BodyFraming::Chunks) => RequestPart::ChunkSize,
                    (0, BodyFraming::None | BodyFraming::Length(_)) => RequestPart::Head,
                    (left, _) => RequestPart::Bytes(left),
                };
                continue;
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (line, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            let room = MAX_NAME - self.line.len();
            self.line.extend_from_slice(line.get(..room).unwrap_or(line));
            self.length += line.len();
            self.last = line.last().copied().unwrap_or(self.last);
            bytes = rest.get(1..).unwrap_or_default();
            if end.is_some() {
                self.end_line()?;
            }
        }
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), BareLineFeed> {
        if self.length == 0 || self.last != b'\r' {
            return Err(BareLineFeed);
        }
        let is_empty = self.length == 1;
        match self.part {
            // Empty lines before a request line are ignored (RFC 9112 §2.2).
            RequestPart::Head if is_empty && !self.has_begun => {}
            RequestPart::Head if is_empty => {
                self.has_begun = false;
                self.part = match self.body {
                    BodyFraming::None => RequestPart::Head,
                    BodyFraming::Length(length) => RequestPart::Bytes(length),
                    BodyFraming::Chunks => RequestPart::ChunkSize,
                };
                if self.part == RequestPart::Head || self.part == RequestPart::Bytes(0) {
                    (self.part, self.body) = (RequestPart::Head, BodyFraming::None);
                }
            }
            RequestPart::Head => {
                if !std::mem::replace(&mut self.has_begun, true) {
                    self.body = BodyFraming::None;
                }
                self.read_field();
            }
            RequestPart::ChunkSize => {
                let size =
                    self.line.split(|byte| matches!(byte, b';' | b'\r' | b' ')).next().unwrap_or_default();
                let size = std::str::from_utf8(size).ok().and_then(|size| u64::from_str_radix(size, 16).ok());
                // What is no size is refused by actix.
                self.part = match size {
                    Some(0) | None => RequestPart::Trailers,
                    Some(size) => RequestPart::Bytes(size.saturating_add(2)),
                };
            }
            RequestPart::Trailers if is_empty => {
                (self.part, self.body) = (RequestPart::Head, BodyFraming::None)
            }
            RequestPart::Trailers | RequestPart::Bytes(_) => {}
        }
        self.line.clear();
        (self.length, self.last) = (0, 0);
        Ok(())
    }

    fn read_field(&mut self) {
        let Some(colon) = self.line.iter().position(|byte| *byte == b':') else { return };
        let (name, value) = self.line.split_at(colon);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
            self.body = length.map_or(self.body, BodyFraming::Length);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.body = BodyFraming::Chunks;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Whether a connection with these bytes passes, in pieces of `size` bytes.
    fn passes(text: &str, size: usize) -> bool {
        let mut check = HeadCheck::default();
        text.as_bytes().chunks(size).all(|piece| check.check(piece).is_ok())
    }

    const GET: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    const POST: &str = "POST / HTTP/1.1\r\nhost: x\r\nContent-Length: 8\r\n\r\n{\n\n\n\n}\n\n";
    const CHUNKS: &str = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3;x=y\r\na\nb\r\nA\r\n0123\n\n6789\r\n0\r\n\r\n";

    #[test]
    fn bodies_may_have_any_bytes() {
        for size in [1, 2, 3, 7, 1_000] {
            for text in [GET, POST, CHUNKS, &[POST, CHUNKS, "\r\n", GET, POST].concat()] {
                assert!(passes(text, size), "{size}: {text:?}");
            }
        }
    }

    #[test]
    fn a_bare_lf_in_a_head_is_found_in_every_request_of_a_connection() {
        for size in [1, 2, 3, 7, 1_000] {
            for before in ["", GET, POST, CHUNKS] {
                for head in [
                    "GET / HTTP/1.1\nhost: x\r\n\r\n",
                    "GET / HTTP/1.1\r\nhost: x\n\r\n",
                    "GET / HTTP/1.1\r\nhost: x\r\nx: y\nz: w\r\n\r\n",
                    "GET / HTTP/1.1\r\nhost: x\r\n\n",
                    "\nGET / HTTP/1.1\r\nhost: x\r\n\r\n",
                    "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n",
                    "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\n",
                ] {
                    let text = [before, head].concat();
                    assert!(!passes(&text, size), "{size}: {text:?}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn the_pieces_do_not_matter(bytes in "[a-z:; \r\n0-9]{0,200}", size in 1_usize..40) {
            let text = [POST, &bytes].concat();
            prop_assert_eq!(passes(&text, size), passes(&text, 10_000));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = HeadCheck::default().check(&bytes);
        }
    }
}
