//! What a call of a model uses: as its provider counts it, and estimated where the provider does not.

use super::model::{ModelDelta, ModelRequest, TokenUsage};

/// Bytes of a token, about.
pub(super) const TOKEN: usize = 4;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CallUsage {
    /// The tokens of the request and of the answer.
    pub(super) tokens: TokenUsage,
    /// Whether one of the two is estimated.
    pub(super) is_estimated: bool,
}

/// Measures one call. A count of 0 of what has bytes is no count.
#[derive(Debug)]
pub(super) struct CallMeter {
    /// The bytes of the request.
    request: usize,
    /// The bytes of the answer so far.
    received: usize,
    /// What the provider has counted so far.
    counted: TokenUsage,
    is_complete: bool,
}

impl CallMeter {
    pub(super) fn new(request: &ModelRequest) -> Self {
        let (received, counted) = (0, TokenUsage::default());
        Self { request: request.bytes(), received, counted, is_complete: false }
    }

    /// Takes a piece of the answer.
    pub(super) fn observe(&mut self, delta: &ModelDelta) {
        match delta {
            ModelDelta::Text(text) => self.received += text.len(),
            ModelDelta::Hidden(bytes) => self.received += bytes,
            ModelDelta::Counted(counted) => self.count(*counted),
            ModelDelta::Notice(_) => {}
            ModelDelta::Answer(answer) => {
                self.received = self.received.max(answer.bytes());
                self.count(answer.usage.unwrap_or_default());
                self.is_complete = true;
            }
        }
    }

    fn count(&mut self, more: TokenUsage) {
        let known = self.counted;
        self.counted = TokenUsage {
            input: known.input.max(more.input),
            output: known.output.max(more.output),
            cached: known.cached.max(more.cached),
            cache_write: known.cache_write.max(more.cache_write),
        };
    }

    /// What the call has used so far. Before the end of an answer, a provider may have counted only a part of it.
    pub(super) fn used(&self) -> CallUsage {
        let estimate = |bytes: usize| u64::try_from(bytes.div_ceil(TOKEN)).unwrap_or(u64::MAX);
        let TokenUsage { input, output, .. } = self.counted;
        let is_input_known = input > 0 || self.request == 0;
        let is_output_known = match self.is_complete {
            true => output > 0 || self.received == 0,
            false => output >= estimate(self.received),
        };
        let tokens = TokenUsage {
            input: if is_input_known { input } else { estimate(self.request) },
            output: if is_output_known { output } else { estimate(self.received) },
            ..self.counted
        };
        CallUsage { tokens, is_estimated: !(is_input_known && is_output_known) }
    }

    /// What a call without an answer has used: nothing if nothing of an answer has come.
    pub(super) fn used_by_failed(&self) -> CallUsage {
        let has_begun = self.received > 0 || self.counted != TokenUsage::default();
        if has_begun { self.used() } else { CallUsage::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brain::llm::model::{ModelAnswer, ModelMessage, StopReason, ToolCall};

    /// A meter of a request of 400 bytes.
    fn meter() -> CallMeter {
        CallMeter::new(&ModelRequest {
            system: "s".repeat(100),
            messages: vec![ModelMessage::User("u".repeat(300))],
            tools: Vec::new(),
            output_schema: None,
            repeatable: (0, "not sent".into()),
            has_budget_note: false,
            media: std::collections::BTreeMap::new(),
            silence: None,
        })
    }

    fn counted(input: u64, output: u64) -> TokenUsage {
        TokenUsage { input, output, ..TokenUsage::default() }
    }

    fn used(input: u64, output: u64, is_estimated: bool) -> CallUsage {
        CallUsage { tokens: counted(input, output), is_estimated }
    }

    fn answer(text: &str, calls: Vec<ToolCall>, usage: Option<TokenUsage>) -> ModelDelta {
        ModelDelta::Answer(ModelAnswer {
            text: text.into(),
            calls,
            stop: StopReason::Complete,
            usage,
            kept: None,
        })
    }

    #[test]
    fn what_a_provider_does_not_count_or_counts_as_nothing_is_estimated() {
        for (said, expected) in [
            (Some(counted(90, 12)), used(90, 12, false)),
            (None, used(100, 10, true)),
            (Some(counted(0, 0)), used(100, 10, true)),
            (Some(counted(0, 12)), used(100, 12, true)),
            (Some(counted(90, 0)), used(90, 10, true)),
        ] {
            let mut meter = meter();
            meter.observe(&answer(&"a".repeat(40), Vec::new(), said));
            assert_eq!(meter.used(), expected, "{said:?}");
        }
        let mut meter = meter();
        let call = ToolCall::parse("c".into(), "read".into(), r#"{"path":"/"}"#, None);
        meter.observe(&answer("", vec![call], Some(counted(90, 0))));
        assert_eq!(meter.used(), used(90, 4, true), "a call alone is no empty answer");
    }

    #[test]
    fn a_call_under_way_has_used_its_request_and_what_has_arrived() {
        let mut cut = meter();
        assert_eq!((cut.used(), cut.used_by_failed()), (used(100, 0, true), CallUsage::default()));
        cut.observe(&ModelDelta::Counted(counted(90, 1)));
        assert_eq!((cut.used(), cut.used_by_failed()), (used(90, 1, false), used(90, 1, false)));
        cut.observe(&ModelDelta::Text("t".repeat(30)));
        cut.observe(&ModelDelta::Hidden(30));
        assert_eq!(cut.used(), used(90, 15, true), "the count is of the beginning only");
    }
}
