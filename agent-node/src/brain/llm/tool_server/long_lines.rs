//! The standard output of a tool server. A line that is too long is dropped by the reader of the protocol without an answer. An
//! error with its id follows it here, so that its call ends at once.

use rmcp::transport::async_rw::DEFAULT_MAX_LINE_LENGTH;
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    io::{self, Read},
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, ReadBuf};

/// How much of the beginning and of the end of a line is searched for its id, bytes.
const SEARCHED: usize = 256;
/// Internal error of JSON-RPC.
const ERROR_CODE: i32 = -32_603;

/// Passes all lines of `R` on, each one that is too long with an error behind it.
pub(super) struct AnsweredLongLines<R> {
    inner: R,
    line: LineEnds,
    /// What was read and is not passed on.
    pending: VecDeque<u8>,
}

/// The line that is being read.
#[derive(Default)]
struct LineEnds {
    length: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
}

impl<R> AnsweredLongLines<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, line: LineEnds::default(), pending: VecDeque::new() }
    }

    /// Takes a piece that ends at the end of a line or before it.
    fn take(&mut self, piece: &[u8]) {
        self.pending.extend(piece);
        self.line.push(piece);
        if !piece.ends_with(b"\n") {
            return;
        }
        let mut line = std::mem::take(&mut self.line);
        if line.length > DEFAULT_MAX_LINE_LENGTH
            && let Some(id) = line.id()
        {
            let mib = DEFAULT_MAX_LINE_LENGTH >> 20;
            let message =
                format!("the result has {} bytes, more than {mib} MiB, and was dropped", line.length);
            let error =
                json!({ "jsonrpc": "2.0", "id": id, "error": { "code": ERROR_CODE, "message": message } });
            self.pending.extend(format!("{error}\n").as_bytes());
        }
    }
}

impl LineEnds {
    fn push(&mut self, piece: &[u8]) {
        self.length += piece.len();
        self.head.extend(piece.iter().take(SEARCHED.saturating_sub(self.head.len())));
        self.tail.extend(&piece[piece.len().saturating_sub(SEARCHED)..]);
        self.tail.drain(..self.tail.len().saturating_sub(SEARCHED));
    }

    /// The id of the response, which servers write before the result or behind it.
    fn id(&mut self) -> Option<Value> {
        let head = String::from_utf8_lossy(&self.head);
        let before = ["\"result\"", "\"error\""].iter().filter_map(|member| head.find(member)).min();
        let head = before.map_or(head.as_ref(), |end| head.get(..end).unwrap_or_default());
        let tail = String::from_utf8_lossy(self.tail.make_contiguous());
        let id = head.find(ID).and_then(|at| value_at(head, at));
        id.or_else(|| tail.rfind(ID).and_then(|at| value_at(&tail, at)))
    }
}

const ID: &str = "\"id\"";

/// The number or the text of the member `id` at this position.
fn value_at(text: &str, at: usize) -> Option<Value> {
    let value = text.get(at + ID.len()..)?.trim_start().strip_prefix(':')?;
    let value = serde_json::Deserializer::from_str(value).into_iter::<Value>().next()?.ok()?;
    (value.is_number() || value.is_string()).then_some(value)
}

impl<R: AsyncRead + Unpin> AsyncRead for AnsweredLongLines<R> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.pending.is_empty() {
            let mut chunk = [0; 8 << 10];
            let mut read = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut read))?;
            for piece in read.filled().split_inclusive(|byte| *byte == b'\n') {
                this.take(piece);
            }
        }
        let bytes = this.pending.read(buf.initialize_unfilled())?;
        buf.advance(bytes);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn a_line_that_is_too_long_is_followed_by_an_error_with_its_id() {
        let content = "x\\\"id\\\":7".repeat(DEFAULT_MAX_LINE_LENGTH / 9);
        let first =
            format!("{{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{{\"text\":\"{content}\",\"id\":8}}}}\n");
        let last =
            format!("{{\"result\":{{\"text\":\"{content}\"}},\"jsonrpc\":\"2.0\",\"id\" : \"six\"}}\n");
        let short = "{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{}}\n";
        let all = [short, &first, short, &last, short].concat();
        let mut read = String::new();
        AnsweredLongLines::new(all.as_bytes()).read_to_string(&mut read).await.unwrap();
        let lines: Vec<_> = read.split_inclusive('\n').collect();
        assert_eq!(lines.len(), 7);
        assert!([lines[0], lines[3], lines[6]] == [short; 3] && lines[1] == first && lines[4] == last);
        for (line, id) in [(lines[2], json!(5)), (lines[5], json!("six"))] {
            let answer: Value = serde_json::from_str(line).unwrap();
            assert_eq!(answer["id"], id);
            assert!(answer["error"]["message"].as_str().unwrap().contains("more than 16 MiB"), "{answer}");
        }
    }
}
