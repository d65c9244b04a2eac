//! Bids of a model: it is asked once, without tools, for terms as JSON.

use super::{
    LlmBrain,
    model::{ModelMessage, ModelRequest},
    output::OutputSchema,
    prompts,
};
use crate::brain::{BrainError, TurnHandle, bidding::BidRequest};
use patterns::contract_net::bidding::BidAnswer;
use protocol::bid::{Cost, Eta, Fraction};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

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

impl LlmBrain {
    /// Asks the models, in their order, until one answers with a valid bid. What each call has used is reported.
    pub(super) async fn terms_for(
        &self,
        request: BidRequest,
        turn: TurnHandle,
    ) -> Result<BidAnswer, BrainError> {
        let schema = OutputSchema::new(schema()).map_err(BrainError::NoBid)?;
        let call = ModelRequest {
            has_budget_note: false,
            media: std::collections::BTreeMap::new(),
            silence: None,
            repeatable: (0, prompts::call_for_proposals(&request, false)),
            system: prompts::system(
                request.agent.as_str(),
                &self.config.description,
                &self.config.instructions,
                Some(schema.schema()),
            ),
            messages: vec![ModelMessage::User(prompts::call_for_proposals(&request, true))],
            tools: Vec::new(),
            output_schema: Some(schema.schema().clone()),
        };
        let answer = self.ask_for_json::<ModelTerms>(call, &schema, &turn).await;
        answer.map(|(_, terms)| terms.into_answer()).map_err(BrainError::NoBid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brain::llm::{
        json_answer::read,
        model::{ModelAnswer, StopReason},
    };

    fn parsed(text: &str, stop: StopReason) -> Result<BidAnswer, String> {
        let answer = ModelAnswer { text: text.to_owned(), calls: Vec::new(), stop, usage: None, kept: None };
        let terms = read::<ModelTerms>(&answer, &OutputSchema::new(schema()).unwrap());
        terms.map(ModelTerms::into_answer)
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
