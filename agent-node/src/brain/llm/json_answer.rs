//! Questions without tools whose answer is JSON: one call, and those of the models after it while there is no valid answer.

use super::{
    CUT, LlmBrain,
    call_meter::CallMeter,
    model::{ModelAnswer, ModelDelta, ModelError, ModelErrorKind, ModelRequest, StopReason},
    output::OutputSchema,
};
use crate::brain::TurnHandle;
use futures_util::StreamExt as _;
use serde::de::DeserializeOwned;
use std::{sync::Arc, time::Instant};

/// What an answer says, or what is wrong with it.
pub(super) fn read<T: DeserializeOwned>(answer: &ModelAnswer, schema: &OutputSchema) -> Result<T, String> {
    match answer.stop {
        StopReason::Complete => {}
        StopReason::Length => return Err("the answer reached the largest number of tokens".to_owned()),
        StopReason::Refused => return Err("the model or its provider refused to answer".to_owned()),
    }
    let value =
        schema.check(&answer.text).map_err(|problem| format!("the answer is not valid: {problem}"))?;
    serde_json::from_value(value).map_err(|error| error.to_string())
}

impl LlmBrain {
    /// Asks the models, in their order, until one answers as `schema` says; returns its name and the answer, or why there is
    /// none. What each call has used is reported.
    pub(super) async fn ask_for_json<T: DeserializeOwned>(
        &self,
        call: ModelRequest,
        schema: &OutputSchema,
        turn: &TurnHandle,
    ) -> Result<(String, T), String> {
        let call = Arc::new(call);
        let mut problems = Vec::new();
        for (position, model) in self.models.iter().enumerate() {
            let begun = Instant::now();
            let mut meter = CallMeter::new(&call);
            let mut deltas = model.ask(call.clone());
            let mut ended: Result<ModelAnswer, ModelError> = Err(ModelError::transient("it gave no answer"));
            loop {
                let so_far = self.usage(position, meter.used(), Err(CUT.to_owned()), begun.elapsed());
                turn.set_call_under_way(so_far, begun);
                let Some(delta) = deltas.next().await else { break };
                if let Ok(delta) = &delta {
                    meter.observe(delta);
                }
                match delta {
                    Ok(ModelDelta::Answer(answer)) => ended = Ok(answer),
                    Ok(_) => {}
                    Err(error) => ended = Err(error),
                }
            }
            let (usage, end) = match &ended {
                Ok(answer) => (meter.used(), Ok(answer.stop.word())),
                Err(error) => (meter.used_by_failed(), Err(error.code())),
            };
            turn.usage(self.usage(position, usage, end, begun.elapsed())).await;
            if let Err(error) = &ended
                && error.kind == ModelErrorKind::Cassette
            {
                return Err(error.message.clone());
            }
            match ended.map_err(|error| error.to_string()).and_then(|answer| read(&answer, schema)) {
                Ok(answer) => return Ok((model.name().to_owned(), answer)),
                Err(problem) => problems.push(format!("{}: {problem}", model.name())),
            }
        }
        Err(problems.join("; "))
    }
}
