//! W3C trace context: one trace for one task, over every hop and through the journal.
//!
//! The ids of our spans follow from the ids in the journal ([`SpanName`]), so that a span has the same id when it is
//! built after a crash.

use crate::{
    ids::{AgentId, ConversationId, Digest, MessageId},
    signal::Signal,
};
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// The `traceparent` and `tracestate` of the work being done (W3C Trace Context, level 1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TraceContext {
    /// The trace, never zero.
    pub trace_id: u128,
    /// The parent span, never zero.
    pub span_id: u64,
    /// Whether the trace is recorded.
    pub sampled: bool,
    /// The `tracestate` of other systems, passed on unchanged.
    pub state: Option<Arc<str>>,
}

/// The header's name.
pub const TRACEPARENT: &str = "traceparent";
/// The name of the header that other systems use for what they pass along.
pub const TRACESTATE: &str = "tracestate";
/// The longest `tracestate` that is handed on, bytes (W3C Trace Context §3.3.1.5).
const MAX_STATE: usize = 512;

impl TraceContext {
    /// The context a `traceparent` header names; `None` for anything the standard calls invalid.
    pub fn parse(header: &str) -> Option<Self> {
        let lower_hex = |part: &str, len| {
            part.len() == len && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        let mut parts = header.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let known = version == "00" && parts.next().is_none() || version != "00" && version != "ff";
        if !(known
            && lower_hex(version, 2)
            && lower_hex(trace, 32)
            && lower_hex(span, 16)
            && lower_hex(flags, 2))
        {
            return None;
        }
        let trace_id = u128::from_str_radix(trace, 16).ok().filter(|id| *id != 0)?;
        let span_id = u64::from_str_radix(span, 16).ok().filter(|id| *id != 0)?;
        Some(Self { trace_id, span_id, sampled: u8::from_str_radix(flags, 16).ok()? & 1 == 1, state: None })
    }

    /// The same with `tracestate`; one that is too long or not valid header text is dropped.
    #[must_use]
    pub fn with_state(mut self, state: &str) -> Self {
        let state = state.trim();
        let is_text = state.bytes().all(|b| (b' '..=b'~').contains(&b)) && state.contains('=');
        self.state = (is_text && state.len() <= MAX_STATE).then(|| state.into());
        self
    }

    /// The context of what happens below `span` in the same trace.
    #[must_use]
    pub fn below(&self, span_id: u64) -> Self {
        Self { span_id, ..self.clone() }
    }

    /// The trace's id as 32 digits.
    pub fn trace(&self) -> String {
        format!("{:032x}", self.trace_id)
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Every record of a conversation's beginning and every signal holds one: the standard library's way to digits,
        // one after the other with padding, costs four times as much.
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        put_hex(&mut text[3..35], &self.trace_id.to_be_bytes());
        put_hex(&mut text[36..52], &self.span_id.to_be_bytes());
        put_hex(&mut text[53..55], &[u8::from(self.sampled)]);
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

/// The two digits of each of `bytes`, as far as there is room.
fn put_hex(text: &mut [u8], bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

impl TryFrom<String> for TraceContext {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let (header, state) = text.split_once(' ').unwrap_or((&text, ""));
        let context = Self::parse(header).map(|context| context.with_state(state));
        context.ok_or_else(|| format!("{text:?} is no traceparent"))
    }
}

impl From<TraceContext> for String {
    fn from(context: TraceContext) -> String {
        match &context.state {
            Some(state) => format!("{context} {state}"),
            None => context.to_string(),
        }
    }
}

/// What a span represents. The same name has the same id, on every node and after every restart.
#[derive(Debug, Clone, Copy)]
pub enum SpanName<'a> {
    /// A conversation of an agent.
    Conversation(&'a AgentId, &'a ConversationId),
    /// The arrival of the message that opened a conversation.
    Opening(&'a AgentId, &'a ConversationId),
    /// The arrival of any other message at an agent.
    Arrival(&'a AgentId, &'a MessageId),
    /// The sending of a message.
    Message(&'a MessageId),
    /// Any other effect, by its id.
    Effect(&'a str),
    /// A call of a model or a tool within a turn: the id of the turn's effect, and the number of the call there.
    Call(&'a str, usize),
}

impl SpanName<'_> {
    /// The span's id: the head of a digest of its name, never zero.
    pub fn id(self) -> u64 {
        let digest = match self {
            Self::Conversation(agent, id) => digest("conversation", agent.as_str(), id.as_str()),
            Self::Opening(agent, id) => digest("opening", agent.as_str(), id.as_str()),
            Self::Arrival(agent, id) => digest("arrival", agent.as_str(), id.as_str()),
            Self::Message(id) => digest("message", "", id.as_str()),
            Self::Effect(id) => digest("effect", "", id),
            Self::Call(turn, number) => digest("call", turn, &number.to_string()),
        };
        let [a, b, c, d, e, f, g, h, ..] = *digest.bytes();
        u64::from_be_bytes([a, b, c, d, e, f, g, h]).max(1)
    }
}

/// The id of a trace that begins with `conversation`, which is unique: evenly distributed in all its bits, as sampling by
/// ratio needs it.
pub fn trace_begun_by(agent: &AgentId, conversation: &ConversationId) -> u128 {
    begun(digest("trace", agent.as_str(), conversation.as_str()))
}

/// The id of a trace that begins with a signal: the same for all agents that react to it. Signals of two principals never
/// begin the same trace.
pub fn trace_begun_by_signal(signal: &Signal) -> u128 {
    let by = signal.by.as_ref().map(|by| format!("{by}\n")).unwrap_or_default();
    begun(digest("signal", &format!("{by}{}", signal.from), &signal.id))
}

fn begun(digest: Digest) -> u128 {
    let mut head = [0; 16];
    head.copy_from_slice(&digest.bytes()[..16]);
    u128::from_be_bytes(head).max(1)
}

fn digest(kind: &str, owner: &str, id: &str) -> Digest {
    let mut text = Vec::with_capacity(kind.len() + owner.len() + id.len() + 2);
    for part in [kind, "\n", owner, "\n", id] {
        text.extend_from_slice(part.as_bytes());
    }
    Digest::of(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn what_the_standard_calls_invalid_is_ignored() {
        assert_eq!(TraceContext::parse(GOOD).unwrap().to_string(), GOOD);
        for bad in [
            "",
            "00-0-0-0",
            &GOOD.to_uppercase(),
            &GOOD.replace("00-0a", "ff-0a"),
            &format!("{GOOD}-x"),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        ] {
            assert_eq!(TraceContext::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_others_pass_along_survives_the_journal_unless_it_is_no_header() {
        let context = TraceContext::parse(GOOD).unwrap();
        let with = context.clone().with_state("congo=t61rcWkgMzE, rojo=00f067aa0ba902b7");
        let json = serde_json::to_string(&with).unwrap();
        assert_eq!(serde_json::from_str::<TraceContext>(&json).unwrap(), with);
        assert_eq!(serde_json::from_str::<TraceContext>(&format!("\"{GOOD}\"")).unwrap(), context);
        for bad in ["", "x", "a=\u{1}", "ä=1", &format!("a={}", "x".repeat(MAX_STATE))] {
            assert_eq!(context.clone().with_state(bad).state, None, "{bad}");
        }
    }

    #[test]
    fn the_same_thing_has_the_same_span_and_another_has_another() {
        let (a, b) = (AgentId::parse("a").unwrap(), AgentId::parse("b").unwrap());
        let (id, message) = (ConversationId::parse("c").unwrap(), MessageId::parse("c").unwrap());
        let names = [
            SpanName::Conversation(&a, &id),
            SpanName::Conversation(&b, &id),
            SpanName::Opening(&a, &id),
            SpanName::Arrival(&a, &message),
            SpanName::Message(&message),
            SpanName::Effect("c"),
        ];
        let ids: std::collections::BTreeSet<_> = names.iter().map(|name| name.id()).collect();
        assert_eq!(ids.len(), names.len());
        assert_eq!(SpanName::Conversation(&a, &id).id(), 0xe386_98c5_f650_6f43, "an id is for good");
    }
}
