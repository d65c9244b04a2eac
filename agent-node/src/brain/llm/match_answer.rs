//! Who does which part of a request, chosen by a model among the skills that agents advertise. It is asked once, without tools
//! and without the agent's instructions; what it chooses is checked by the rules (`protocol`, `team::chosen`).

use super::{
    LlmBrain,
    model::{ModelMessage, ModelRequest},
    output::OutputSchema,
    prompts,
};
use crate::brain::{
    TurnHandle,
    matching::{MatchAnswer, MatchQuestion},
};
use patterns::session::team::chosen::ChosenPart;
use protocol::a2a::limits::MAX_PARTS;
use serde::Deserialize;
use serde_json::{Value, json};

/// The largest question, bytes.
const MAX_QUESTION: usize = 128 << 10;

/// The JSON Schema of the answer.
fn schema() -> Value {
    let text = json!({ "type": "string" });
    json!({
        "type": "object",
        "required": ["parts"],
        "additionalProperties": false,
        "properties": { "parts": { "type": "array", "minItems": 1, "maxItems": MAX_PARTS, "items": {
            "type": "object",
            "required": ["text", "reason"],
            "additionalProperties": false,
            "properties": { "text": text, "agent": text, "skill": text, "reason": text },
        } } },
    })
}

/// What fits the schema.
#[derive(Deserialize)]
struct ChosenParts {
    parts: Vec<ChosenPart>,
}

impl LlmBrain {
    /// Asks the models for the parts of a request.
    pub(super) async fn parts_of(
        &self,
        question: MatchQuestion,
        turn: TurnHandle,
    ) -> Result<MatchAnswer, String> {
        let schema = OutputSchema::new(schema())?;
        let first = prompts::match_question(&question);
        if first.len() > MAX_QUESTION {
            return Err(format!(
                "request and skills have {} bytes, a model is given {MAX_QUESTION}",
                first.len()
            ));
        }
        let call = ModelRequest {
            system: prompts::system(
                question.agent.as_str(),
                &self.config.description,
                "",
                Some(schema.schema()),
            ),
            messages: vec![ModelMessage::User(first.clone())],
            tools: Vec::new(),
            output_schema: Some(schema.schema().clone()),
            repeatable: (0, first),
            has_budget_note: false,
            media: std::collections::BTreeMap::new(),
            silence: None,
        };
        let asked =
            tokio::time::timeout(question.within, self.ask_for_json::<ChosenParts>(call, &schema, &turn));
        match asked.await {
            Ok(answer) => answer.map(|(model, ChosenParts { parts })| MatchAnswer { model, parts }),
            Err(_) => Err(format!("no answer within {:?}", question.within)),
        }
    }
}
