//! Bids of a model: it is asked once, without tools, for terms as JSON.

use super::{
    LlmBrain,
    model::{
        ModelAnswer, ModelDelta, ModelError, ModelErrorKind, ModelMessage, ModelRequest, StopReason,
        TokenUsage,
    },
    output::OutputSchema,
    prompts,
};
use crate::brain::{BrainError, TurnHandle, bidding::BidRequest};
use futures_util::StreamExt as _;
use protocol::{
    bid::{Cost, Eta, Fraction},
    patterns::contract_net::bidding::BidAnswer,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// The JSON Schema of the answer.
fn schema() -> Value {
    json!({
        "type": "object",
        "required": ["bid"],
        "additionalProperties": false,
        "properties": {
            "bid": { "type": "boolean" },
            "cost": { "type": "number", "minimum": 0, "maximum": 1e9 },
            "etaSeconds": { "type": "number", "minimum": 0, "maximum": 2_678_400 },
            "match": { "type": "number", "minimum": 0, "maximum": 1 },
            "reason": { "type": "string" },
        },
    })
}

/// What fits the schema.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ModelTerms {
    bid: bool,
    cost: Option<f64>,
    eta_seconds: Option<f64>,
    #[serde(rename = "match")]
    capability_match: Option<f64>,
    reason: Option<String>,
}

impl ModelTerms {
    fn into_answer(self) -> BidAnswer {
        if !self.bid {
            let reason = self.reason.filter(|reason| !reason.trim().is_empty());
            return BidAnswer::NoBid { reason: reason.unwrap_or_else(|| "its model declines".to_owned()) };
        }
        let eta = self.eta_seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        BidAnswer::Bid {
            cost: self.cost.and_then(Cost::new),
            eta: eta.and_then(|eta| u64::try_from(eta.as_millis()).ok()).map(Eta),
            capability_match: self.capability_match.and_then(Fraction::new),
        }
    }
}

/// The bid in an answer, or what is wrong with it.
fn terms(answer: &ModelAnswer, schema: &OutputSchema) -> Result<BidAnswer, String> {
    match answer.stop {
        StopReason::Complete => {}
        StopReason::Length => return Err("the answer reached the largest number of tokens".to_owned()),
        StopReason::Refused => return Err("the model or its provider refused to answer".to_owned()),
    }
    let value =
        schema.check(&answer.text).map_err(|problem| format!("the answer is not valid: {problem}"))?;
    let terms: ModelTerms = serde_json::from_value(value).map_err(|error| error.to_string())?;
    Ok(terms.into_answer())
}

impl LlmBrain {
    /// Asks the models, in their order, until one answers with a valid bid. What each call has used is reported.
    pub(super) async fn terms_for(
        &self,
        request: BidRequest,
        turn: TurnHandle,
    ) -> Result<BidAnswer, BrainError> {
        let schema = OutputSchema::new(schema()).map_err(BrainError::NoBid)?;
        let call = Arc::new(ModelRequest {
            has_budget_note: false,
            repeatable_first: prompts::call_for_proposals(&request, false),
            system: prompts::system(
                request.agent.as_str(),
                &self.config.description,
                &self.config.instructions,
                Some(schema.schema()),
            ),
            messages: vec![ModelMessage::User(prompts::call_for_proposals(&request, true))],
            tools: Vec::new(),
            output_schema: Some(schema.schema().clone()),
        });
        let mut problems = Vec::new();
        for (position, model) in self.models.iter().enumerate() {
            let begun = Instant::now();
            let mut deltas = model.ask(call.clone());
            let mut ended: Result<ModelAnswer, ModelError> = Err(ModelError::transient("it gave no answer"));
            while let Some(delta) = deltas.next().await {
                match delta {
                    Ok(ModelDelta::Text(_) | ModelDelta::Hidden(_)) => {}
                    Ok(ModelDelta::Answer(answer)) => ended = Ok(answer),
                    Err(error) => ended = Err(error),
                }
            }
            let (usage, end) = match &ended {
                Ok(answer) => (answer.usage.unwrap_or_default(), Ok(answer.stop.word())),
                Err(error) => (TokenUsage::default(), Err(error.code())),
            };
            turn.usage(self.usage(position, usage, end, begun.elapsed())).await;
            if let Err(error) = &ended
                && error.kind == ModelErrorKind::Cassette
            {
                return Err(BrainError::NoBid(error.message.clone()));
            }
            match ended.map_err(|error| error.to_string()).and_then(|answer| terms(&answer, &schema)) {
                Ok(answer) => return Ok(answer),
                Err(problem) => problems.push(format!("{}: {problem}", model.name())),
            }
        }
        Err(BrainError::NoBid(problems.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str, stop: StopReason) -> Result<BidAnswer, String> {
        let answer = ModelAnswer { text: text.to_owned(), calls: Vec::new(), stop, usage: None };
        terms(&answer, &OutputSchema::new(schema()).unwrap())
    }

    #[test]
    fn a_valid_answer_is_a_bid_or_none_and_its_terms_may_be_left_out() {
        let bid = |cost, eta, capability_match| BidAnswer::Bid { cost, eta, capability_match };
        let no = |reason: &str| BidAnswer::NoBid { reason: reason.to_owned() };
        for (text, answer) in [
            (
                "```json\n{\"bid\":true,\"cost\":0.5,\"etaSeconds\":1.5,\"match\":0.4}\n```",
                bid(Cost::new(0.5), Some(Eta(1_500)), Fraction::new(0.4)),
            ),
            (r#"{"bid":true}"#, bid(None, None, None)),
            (r#"{"bid":false,"reason":"I only dig","cost":1}"#, no("I only dig")),
            (r#"{"bid":false,"reason":" "}"#, no("its model declines")),
        ] {
            assert_eq!(parsed(text, StopReason::Complete), Ok(answer), "{text}");
        }
    }

    #[test]
    fn an_answer_that_is_no_bid_says_what_is_wrong() {
        for (text, stop, part) in [
            ("sure, for 5", StopReason::Complete, "no JSON"),
            (r#"{"cost":1}"#, StopReason::Complete, "\"bid\" is a required property"),
            (r#"{"bid":true,"match":7}"#, StopReason::Complete, "/match"),
            (r#"{"bid":true,"price":7}"#, StopReason::Complete, "price"),
            (r#"{"bid":true"#, StopReason::Length, "largest number of tokens"),
            ("", StopReason::Refused, "refused"),
        ] {
            let problem = parsed(text, stop).unwrap_err();
            assert!(problem.contains(part), "{text}: {problem}");
        }
    }
}
