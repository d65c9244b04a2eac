//! The standard output of a tool server. The reader of the protocol drops a line that is too long or that it can't read, without an
//! answer to the call. Here an error with the id of that call takes its place, so that the call ends at once.

use rmcp::{RoleClient, service::RxJsonRpcMessage, transport::async_rw::DEFAULT_MAX_LINE_LENGTH};
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

/// Passes the lines of `R` on, but errors in place of responses that can't be read.
pub(super) struct AnsweredLines<R> {
    inner: R,
    line: Line,
    /// What was read and is not passed on.
    pending: VecDeque<u8>,
}

/// The line that is being read.
#[derive(Default)]
struct Line {
    length: usize,
    /// The line; of one that is too long, its beginning and its end.
    kept: Vec<u8>,
}

impl<R> AnsweredLines<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, line: Line::default(), pending: VecDeque::new() }
    }

    /// Takes a piece that ends at the end of a line or before it.
    fn take(&mut self, piece: &[u8]) {
        self.line.push(piece);
        if !piece.ends_with(b"\n") {
            return;
        }
        let line = std::mem::take(&mut self.line);
        match line.fault().and_then(|fault| Some((fault, line.response_id()?))) {
            Some((fault, id)) => {
                let message = format!("the result was dropped: {fault}");
                let error = json!({ "code": ERROR_CODE, "message": message });
                let answer = json!({ "jsonrpc": "2.0", "id": id, "error": error });
                self.pending.extend(format!("{answer}\n").as_bytes());
            }
            None if line.is_too_long() => {}
            None => self.pending.extend(line.kept),
        }
    }
}

impl Line {
    fn push(&mut self, piece: &[u8]) {
        self.length += piece.len();
        self.kept.extend(piece);
        if self.is_too_long() {
            self.kept.drain(SEARCHED..self.kept.len().saturating_sub(SEARCHED).max(SEARCHED));
        }
    }

    fn is_too_long(&self) -> bool {
        self.length > DEFAULT_MAX_LINE_LENGTH
    }

    /// Why the reader would drop the line.
    fn fault(&self) -> Option<String> {
        if self.is_too_long() {
            let mib = DEFAULT_MAX_LINE_LENGTH >> 20;
            return Some(format!("it has {} bytes, more than {mib} MiB", self.length));
        }
        let read = serde_json::from_slice::<RxJsonRpcMessage<RoleClient>>(&self.kept);
        read.err().map(|error| match error.is_data() {
            true => "it is no response of MCP".to_owned(),
            false => format!("it is no JSON: {error}"),
        })
    }

    /// The id of the response that the line is, which servers write before the result or behind it. `None` of what else servers
    /// write: requests, and lines for people.
    fn response_id(&self) -> Option<Value> {
        let head = String::from_utf8_lossy(&self.kept[..self.kept.len().min(SEARCHED)]);
        let tail = String::from_utf8_lossy(&self.kept[self.kept.len().saturating_sub(SEARCHED)..]);
        let before = ["\"result\"", "\"error\""].iter().filter_map(|member| head.find(member)).min();
        let head = before.map_or(head.as_ref(), |end| head.get(..end).unwrap_or_default());
        if !head.trim_start().starts_with('{') || head.contains("\"method\"") {
            return None;
        }
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

impl<R: AsyncRead + Unpin> AsyncRead for AnsweredLines<R> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.pending.is_empty() {
            let mut chunk = [0; 8 << 10];
            let mut read = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
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

    const GOOD: &str = "{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{}}\n";

    /// The lines that are read of `lines`.
    async fn read(lines: &[&str]) -> Vec<String> {
        let mut read = String::new();
        AnsweredLines::new(lines.concat().as_bytes()).read_to_string(&mut read).await.unwrap();
        read.split_inclusive('\n').map(str::to_owned).collect()
    }

    fn assert_error(line: &str, id: Value, part: &str) {
        let answer: Value = serde_json::from_str(line).unwrap();
        assert_eq!(answer["id"], id, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(part), "{part}: {answer}");
    }

    #[tokio::test]
    async fn an_error_with_its_id_takes_the_place_of_a_response_that_is_too_long() {
        let content = "x\\\"id\\\":7".repeat(DEFAULT_MAX_LINE_LENGTH / 9);
        let first =
            format!("{{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{{\"text\":\"{content}\",\"id\":8}}}}\n");
        let last =
            format!("{{\"result\":{{\"text\":\"{content}\"}},\"jsonrpc\":\"2.0\",\"id\" : \"six\"}}\n");
        let lines = read(&[GOOD, &first, GOOD, &last, GOOD]).await;
        assert_eq!([&lines[0], &lines[2], &lines[4]], [GOOD; 3]);
        assert_error(&lines[1], json!(5), "more than 16 MiB");
        assert_error(&lines[3], json!("six"), "more than 16 MiB");
        assert_eq!(lines.len(), 5);
    }

    #[tokio::test]
    async fn an_error_with_its_id_takes_the_place_of_a_response_that_is_no_json() {
        let surrogate =
            "{\"jsonrpc\": \"2.0\", \"id\": 5, \"result\": {\"content\": [{\"text\": \"\\ud800\"}]}}\n";
        let cut = "{\"result\":{\"content\":[},\"id\":6}\n";
        let other = "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\"\n";
        let lines = read(&[GOOD, surrogate, cut, other, GOOD]).await;
        assert_eq!((lines[0].as_str(), lines[4].as_str(), lines.len()), (GOOD, GOOD, 5));
        assert_error(&lines[1], json!(5), "it is no JSON");
        assert_error(&lines[2], json!(6), "it is no JSON");
        assert_error(&lines[3], json!(7), "it is no JSON");
    }

    #[tokio::test]
    async fn what_is_no_response_is_passed_on() {
        let lines = [
            "the server starts, \"id\":5\n",
            "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\"\n",
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":\"\\ud800\"}}\n",
            "\n",
        ];
        assert_eq!(read(&lines).await, lines);
    }
}
