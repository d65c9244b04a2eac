//! W3C trace context: one trace for one task, over every hop and through the journal.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The `traceparent` of the work being done (W3C Trace Context, level 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TraceContext {
    /// The trace, never zero.
    pub trace_id: u128,
    /// The span this work hangs under, never zero.
    pub span_id: u64,
    /// Whether the trace is recorded.
    pub sampled: bool,
}

/// The header's name.
pub const TRACEPARENT: &str = "traceparent";

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
        Some(Self { trace_id, span_id, sampled: u8::from_str_radix(flags, 16).ok()? & 1 == 1 })
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, u8::from(self.sampled))
    }
}

impl TryFrom<String> for TraceContext {
    type Error = String;
    fn try_from(header: String) -> Result<Self, String> {
        Self::parse(&header).ok_or_else(|| format!("{header:?} is no traceparent"))
    }
}

impl From<TraceContext> for String {
    fn from(context: TraceContext) -> String {
        context.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_standard_calls_invalid_is_ignored() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(TraceContext::parse(good).unwrap().to_string(), good);
        for bad in [
            "",
            "00-0-0-0",
            &good.to_uppercase(),
            &good.replace("00-0a", "ff-0a"),
            &format!("{good}-x"),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        ] {
            assert_eq!(TraceContext::parse(bad), None, "{bad}");
        }
    }
}
