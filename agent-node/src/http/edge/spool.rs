//! Takes long `raw` strings, which A2A 0.3 calls `bytes`, out of a JSON body as it arrives and writes what they stand for into
//! files, so that a body with a large file is never in memory. The body goes on with a mark in place of each, which nobody can guess.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use bytes::BytesMut;
use protocol::{
    artifact::blob,
    problem::{Problem, Reason},
};
use store::blobs::{BlobWriter, SharedBlobs, WrittenBlob};

/// The members whose strings are taken out: that of 1.0, and those of A2A 0.3 over JSON-RPC and over HTTP+JSON.
const FILE_MEMBERS: [&[u8]; 3] = [b"raw", b"bytes", b"fileWithBytes"];
/// The length of the longest of them.
const MAX_MEMBER: usize = 13;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// A file that a body has brought: the mark in its place, which is base64 itself, and its content.
pub(crate) struct SpooledFile {
    pub(crate) mark: String,
    pub(crate) content: WrittenBlob,
}

/// The files of a request.
#[derive(Default)]
pub(crate) struct SpooledFiles(pub(crate) Vec<SpooledFile>);

/// Reads a body, piece by piece.
pub(super) struct Spool {
    blobs: SharedBlobs,
    /// What is left of the body.
    pub(super) rest: BytesMut,
    at: Place,
    /// The string that ended last, if it may be the name of a member.
    last: Vec<u8>,
    /// Whether the next value is that of the member `raw`.
    is_raw: bool,
    /// Whether it may be base64 of base64.
    may_be_nested: bool,
    files: Vec<SpooledFile>,
}

/// Where in the body the next byte is.
enum Place {
    Outside,
    /// In a string; whether behind a backslash.
    Text(bool),
    Raw(Box<RawText>),
}

/// The string of a member `raw`.
#[derive(Default)]
struct RawText {
    /// As it was sent, as long as it is short.
    sent: Vec<u8>,
    /// Base64 that is not decoded yet.
    encoded: Vec<u8>,
    /// What it stands for, if that is base64 itself and not decoded yet: so the Python SDK sends files over HTTP+JSON of 0.3.
    inner: Option<Vec<u8>>,
    /// The characters of an escape so far.
    escape: Option<Vec<u8>>,
    writer: Option<BlobWriter>,
}

/// The most files of a request.
const MAX_FILES: usize = 64;

/// Base64 is decoded in pieces of this many characters, a multiple of 4.
const PIECE: usize = 16 << 10;

impl Spool {
    pub(super) fn new(blobs: SharedBlobs) -> Self {
        Self {
            blobs,
            rest: BytesMut::new(),
            at: Place::Outside,
            last: Vec::new(),
            is_raw: false,
            may_be_nested: false,
            files: Vec::new(),
        }
    }

    /// Adds a piece of the body. Fails if a long `raw` is no base64, or a file can't be written.
    pub(super) fn add(&mut self, mut piece: &[u8]) -> Result<(), Problem> {
        while !piece.is_empty() {
            let used = match &mut self.at {
                Place::Outside => self.outside(piece),
                Place::Text(is_escaped) => {
                    let used = if std::mem::take(is_escaped) {
                        1
                    } else {
                        let end = piece.iter().position(|byte| matches!(byte, b'"' | b'\\'));
                        match end.map(|at| (at, piece[at])) {
                            Some((at, b'"')) => {
                                self.at = Place::Outside;
                                at + 1
                            }
                            Some((at, _)) => {
                                *is_escaped = true;
                                at + 1
                            }
                            None => piece.len(),
                        }
                    };
                    if self.last.len() <= MAX_MEMBER {
                        let text = &piece[..used];
                        let text = text.strip_suffix(b"\"").unwrap_or(text);
                        self.last.extend_from_slice(&text[..text.len().min(MAX_MEMBER + 1)]);
                    }
                    self.rest.extend_from_slice(&piece[..used]);
                    used
                }
                Place::Raw(text) => {
                    let (used, is_over) = text.add(piece, &self.blobs)?;
                    if is_over {
                        let Place::Raw(text) = std::mem::replace(&mut self.at, Place::Outside) else { break };
                        let (text, file) = text.finish()?;
                        if file.is_some() && self.files.len() == MAX_FILES {
                            let message = format!("a request may have {MAX_FILES} files (long raw parts)");
                            return Err(
                                Problem::new(Reason::PayloadTooLarge, message).with("limit", MAX_FILES)
                            );
                        }
                        self.rest.extend_from_slice(&text);
                        self.rest.extend_from_slice(b"\"");
                        self.files.extend(file);
                    }
                    used
                }
            };
            piece = &piece[used..];
        }
        Ok(())
    }

    /// Reads up to the next string; returns the bytes used.
    fn outside(&mut self, piece: &[u8]) -> usize {
        let end = piece.iter().position(|byte| *byte == b'"');
        let between = &piece[..end.unwrap_or(piece.len())];
        for byte in between {
            match byte {
                b':' => {
                    self.is_raw = FILE_MEMBERS.contains(&self.last.as_slice());
                    self.may_be_nested = self.last == FILE_MEMBERS[2];
                }
                byte if byte.is_ascii_whitespace() => {}
                _ => {
                    self.is_raw = false;
                    self.last.clear();
                }
            }
        }
        let used = end.map_or(piece.len(), |at| at + 1);
        self.rest.extend_from_slice(&piece[..used]);
        if end.is_some() {
            self.at = match std::mem::take(&mut self.is_raw) {
                true => Place::Raw(Box::new(RawText {
                    inner: self.may_be_nested.then(Vec::new),
                    ..RawText::default()
                })),
                false => Place::Text(false),
            };
            self.last.clear();
        }
        used
    }

    /// The bytes written into files so far.
    pub(super) fn file_bytes(&self) -> u64 {
        let open = match &self.at {
            Place::Raw(text) => text.writer.as_ref().map_or(0, BlobWriter::bytes),
            Place::Outside | Place::Text(_) => 0,
        };
        open + self.files.iter().map(|file| file.content.bytes).sum::<u64>()
    }

    /// What is left of the body, and its files.
    pub(super) fn finish(self) -> (BytesMut, SpooledFiles) {
        (self.rest, SpooledFiles(self.files))
    }
}

impl RawText {
    /// Adds a piece; returns the bytes used, and whether the string has ended.
    fn add(&mut self, piece: &[u8], blobs: &SharedBlobs) -> Result<(usize, bool), Problem> {
        let mut used = 0;
        while let Some(byte) = piece.get(used) {
            if let Some(escape) = &mut self.escape {
                escape.push(*byte);
                used += 1;
                if let Some(byte) = unescaped(escape) {
                    self.sent.push(b'\\');
                    self.sent.extend_from_slice(escape);
                    self.encoded.push(byte);
                    self.escape = None;
                }
                continue;
            }
            let rest = &piece[used..];
            let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\\')).unwrap_or(rest.len());
            let text = &rest[..end];
            used += end;
            if self.writer.is_none() {
                self.sent.extend_from_slice(text);
            }
            self.encoded.extend(text.iter().map(|byte| match byte {
                b'-' => b'+',
                b'_' => b'/',
                byte => *byte,
            }));
            if self.writer.is_none() && self.encoded.len() > blob::MIN_BYTES {
                self.writer = Some(BlobWriter::begin(blobs.as_ref())?);
                self.sent = Vec::new();
            }
            if self.writer.is_some() && self.encoded.len() >= PIECE {
                // The last characters may be padding, which stands at the end only.
                let length = self.encoded.len().saturating_sub(4) / 4 * 4;
                if self.encoded[..length].contains(&b'=') {
                    return Err(no_base64("padding is at its end"));
                }
                self.decode(length, false)?;
            }
            match piece.get(used) {
                Some(b'"') => return Ok((used + 1, true)),
                Some(_) => {
                    self.escape = Some(Vec::new());
                    used += 1;
                }
                None => {}
            }
        }
        Ok((used, false))
    }

    /// Decodes the first `length` characters, which may be all.
    fn decode(&mut self, length: usize, is_last: bool) -> Result<(), Problem> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let decode = |text: &[u8]| BASE64.decode(text).map_err(|error| no_base64(&error.to_string()));
        let mut content = decode(&self.encoded[..length])?;
        self.encoded.drain(..length);
        let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
        if writer.bytes() == 0 && !content.iter().all(is_base64) {
            self.inner = None;
        }
        if let Some(inner) = &mut self.inner {
            inner.extend_from_slice(&content);
            let length = if is_last { inner.len() } else { inner.len().saturating_sub(4) / 4 * 4 };
            content = decode(&inner[..length])?;
            inner.drain(..length);
        }
        Ok(writer.write(&content)?)
    }

    /// The string for the body, and the file if it was long.
    fn finish(mut self) -> Result<(Vec<u8>, Option<SpooledFile>), Problem> {
        if self.writer.is_none() {
            return Ok((self.sent, None));
        }
        self.decode(self.encoded.len(), true)?;
        let Some(writer) = self.writer else { return Ok((self.sent, None)) };
        let mark =
            BASE64.encode([*uuid::Uuid::new_v4().as_bytes(), *uuid::Uuid::new_v4().as_bytes()].concat());
        Ok((mark.clone().into_bytes(), Some(SpooledFile { mark, content: writer.finish() })))
    }
}

/// No character of base64.
const NO_BASE64: u8 = b'*';

/// The character that an escape stands for, if it is one of base64; `None` if it is not complete.
fn unescaped(escape: &[u8]) -> Option<u8> {
    match escape {
        [b'/'] => Some(b'/'),
        [b'u', digits @ ..] if digits.len() < 4 => None,
        [b'u', digits @ ..] => {
            let digits = std::str::from_utf8(digits).ok();
            let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
            Some(digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).unwrap_or(NO_BASE64))
        }
        _ => Some(NO_BASE64),
    }
}

fn no_base64(why: &str) -> Problem {
    Problem::new(Reason::InvalidField, format!("raw must be base64: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::ids::Digest;
    use serde_json::{Value, json};
    use std::sync::Arc;
    use store::blobs::BlobMemory;

    fn spooled(body: &str, size: usize) -> Result<(String, Vec<SpooledFile>), Problem> {
        let mut spool = Spool::new(Arc::new(BlobMemory::default()));
        for piece in body.as_bytes().chunks(size) {
            spool.add(piece)?;
        }
        let (rest, SpooledFiles(files)) = spool.finish();
        Ok((String::from_utf8(rest.to_vec()).unwrap(), files))
    }

    #[test]
    fn long_raw_strings_become_files_however_the_body_arrives() {
        let long: Vec<u8> = (0..100_000_u32).map(|at| (at % 251) as u8).collect();
        let encoded = BASE64.encode(&long);
        let url_safe = encoded.replace('+', "-").replace('/', "_").replace('=', "");
        let escaped = encoded.replace('/', "\\/").replace('+', "\\u002b");
        let body = format!(
            r#"{{"parts":[{{"raw":"AAEC"}},{{"raw" : "{encoded}","filename":"a\"raw\":"}},{{"text":"raw"}},{{"raw":"{url_safe}"}},{{"raw":"{escaped}"}},{{"text":"{encoded}"}}]}}"#
        );
        for size in [1, 3, 1_000, 70_000, body.len()] {
            let (rest, files) = spooled(&body, size).unwrap();
            let rest: Value = serde_json::from_str(&rest).unwrap();
            assert_eq!(files.len(), 3);
            for (file, at) in files.iter().zip([1, 3, 4]) {
                assert_eq!((file.content.digest, file.content.bytes), (Digest::of(&long), 100_000));
                assert_eq!(rest["parts"][at]["raw"], json!(file.mark));
            }
            assert_eq!(rest["parts"][0]["raw"], "AAEC");
            assert_eq!(rest["parts"][1]["filename"], "a\"raw\":");
            assert_eq!(rest["parts"][5]["text"], json!(encoded), "only `raw` is taken out");
        }
    }

    #[test]
    fn files_of_0_3_are_taken_out_like_those_of_1_0() {
        let encoded = BASE64.encode([7; 50_000]);
        for name in ["bytes", "fileWithBytes"] {
            let (rest, files) = spooled(&format!(r#"{{"file":{{"{name}":"{encoded}"}}}}"#), 999).unwrap();
            let rest: Value = serde_json::from_str(&rest).unwrap();
            assert_eq!(rest["file"][name], json!(files[0].mark));
            assert_eq!(files[0].content.bytes, 50_000);
        }
        let twice = BASE64.encode(&encoded);
        for (name, bytes) in [("fileWithBytes", 50_000), ("bytes", encoded.len() as u64)] {
            let (_, files) = spooled(&format!(r#"{{"{name}":"{twice}"}}"#), 777).unwrap();
            assert_eq!(files[0].content.bytes, bytes, "{name}");
        }
    }

    #[test]
    fn what_is_no_base64_is_refused_and_other_bodies_are_as_they_were() {
        let long = "A".repeat(100_000);
        for bad in [
            format!("{long}={long}"),
            format!("{long}\\u+041"),
            format!("{long}*{long}"),
            format!("{long}\\n{long}"),
            format!("{long}\\u00e9"),
        ] {
            let refused = spooled(&format!(r#"{{"raw":"{bad}"}}"#), 5_000).map(|_| ()).unwrap_err();
            assert_eq!(refused.reason, Reason::InvalidField, "{}", refused.message);
        }
        for body in [
            r#"{"raw":"short\n"}"#.to_owned(),
            r#"{"raw":["a"],"b":"raw","c":{"raw":null}}"#.to_owned(),
            format!(r#"["raw","{long}"]"#),
            format!(r#"{{"raw":1,"x":"{long}"}}"#),
            format!(r#"{{"draw":"{long}"}}"#),
            format!(r#"{{"fileWithByte":"{long}","fileWithBytess":"{long}"}}"#),
            "no JSON \" at all".to_owned(),
        ] {
            for size in [1, 7, body.len()] {
                assert_eq!(spooled(&body, size).unwrap().0, body);
            }
        }
    }
}
