//! What was said between an agent and its model, read from the records of its transcript in the journal.

use super::{
    model::Kept,
    prompts,
    transcript::{CallRecord, Round, TranscriptRecord},
};
use patterns::turn::{Progress, Prompt};
use protocol::{
    ids::AgentId,
    model_line::{ModelLine, ModelReply, ModelToolCall, ModelWords},
    time::WallTime,
    usage::ModelUsage,
};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The members of what a provider wants back that are thoughts in words: of Anthropic, OpenAI, OpenRouter, LiteLLM and vLLM.
const THOUGHTS: [&str; 6] =
    ["thinking", "reasoning_content", "reasoning", "summary", "reasoning_text", "summary_text"];
/// The members that hold such members.
const HOLDERS: [&str; 3] = ["reasoning_details", "thinking_blocks", "content"];

/// What a journal says of a turn of a brain.
#[derive(Debug, Clone)]
pub enum TurnNote {
    /// It begins.
    Began(Box<Prompt>),
    /// It has reported something.
    Reported(Progress),
}

/// What the notes on the turns of a task of `agent`, oldest first, say of its model. Those on other brains are skipped.
pub fn model_lines<'a>(
    agent: &AgentId,
    notes: impl IntoIterator<Item = (u32, WallTime, &'a TurnNote)>,
) -> Vec<ModelLine> {
    let mut reading = Reading::default();
    for (turn, at, note) in notes {
        let report = match note {
            TurnNote::Began(prompt) if reading.lines.is_empty() => {
                reading.prompt = Some((turn, at, prompts::subject_of(agent, prompt)));
                continue;
            }
            TurnNote::Began(_) => continue,
            TurnNote::Reported(report) => report,
        };
        match report {
            Progress::Usage(usage) => match &usage.error {
                Some(code) => {
                    reading.push(turn, at, ModelWords::Failed { code: code.clone(), usage: usage.clone() });
                }
                // The answer that it brought is the next record.
                None => reading.usage = Some(usage.clone()),
            },
            Progress::Checkpoint(checkpoint) => {
                if let Ok(record) = TranscriptRecord::deserialize(&checkpoint.data) {
                    reading.record(turn, at, record);
                }
            }
            _ => {}
        }
    }
    reading.lines
}

#[derive(Default)]
struct Reading {
    lines: Vec<ModelLine>,
    usage: Option<ModelUsage>,
    /// What the first turn was told, until its model says something.
    prompt: Option<(u32, WallTime, String)>,
}

impl Reading {
    fn push(&mut self, turn: u32, at: WallTime, what: ModelWords) {
        if let Some((turn, at, text)) = self.prompt.take().filter(|(.., text)| !text.is_empty()) {
            let what = ModelWords::Told { text, files: Vec::new() };
            self.lines.push(ModelLine { at, turn, what });
        }
        self.lines.push(ModelLine { at, turn, what });
    }

    fn record(&mut self, turn: u32, at: WallTime, record: TranscriptRecord) {
        let is_beginning = matches!(record, TranscriptRecord::Began { .. });
        match record {
            TranscriptRecord::Began { text, media, .. } | TranscriptRecord::Noted { text, media, .. } => {
                if is_beginning {
                    self.prompt = None;
                }
                let files =
                    media.into_iter().map(|medium| medium.name.unwrap_or(medium.media_type)).collect();
                self.push(turn, at, ModelWords::Told { text, files });
            }
            TranscriptRecord::Answered { round } => {
                let reply = reply(*round, self.usage.take());
                self.push(turn, at, ModelWords::Answered(Box::new(reply)));
            }
            TranscriptRecord::EndChecked { denied } => {
                if let Some(reply) = self.replies().next() {
                    reply.notes.extend(denied);
                }
            }
            TranscriptRecord::Checked { call, arguments } => {
                self.change(&call, |call| {
                    call.made_with = arguments.map(Value::Object).or(call.made_with.take())
                });
            }
            TranscriptRecord::Edited { call, arguments } => {
                self.change(&call, |call| call.made_with = Some(Value::Object(arguments)));
            }
            TranscriptRecord::Started { call } => self.change(&call, |call| call.starts += 1),
            TranscriptRecord::Finished { call, result } => self.change(&call, |call| {
                call.result = Some(result.text);
                call.is_error = result.is_error;
            }),
            TranscriptRecord::Compacted { dropped, .. } => {
                self.push(turn, at, ModelWords::Dropped { what: dropped });
            }
            TranscriptRecord::Paused | TranscriptRecord::BrokeOff | TranscriptRecord::ServerFailed => {}
        }
    }

    /// The answers, the newest first.
    fn replies(&mut self) -> impl Iterator<Item = &mut ModelReply> {
        self.lines.iter_mut().rev().filter_map(|line| match &mut line.what {
            ModelWords::Answered(reply) => Some(&mut **reply),
            _ => None,
        })
    }

    /// Changes the newest call of this id.
    fn change(&mut self, id: &str, change: impl FnOnce(&mut ModelToolCall)) {
        let found = self.replies().flat_map(|reply| &mut reply.calls).find(|call| call.id == id);
        if let Some(call) = found {
            change(call);
        }
    }
}

fn reply(round: Round, usage: Option<ModelUsage>) -> ModelReply {
    let Round { text, calls, notes, kept, .. } = round;
    let reasoning = kept.as_ref().and_then(thoughts);
    ModelReply { text, reasoning, calls: calls.into_iter().map(call).collect(), notes, usage }
}

fn call(record: CallRecord) -> ModelToolCall {
    let made_with = record.made().arguments;
    let CallRecord { call, starts, result, .. } = record;
    let (is_error, result) = result.map_or((false, None), |result| (result.is_error, Some(result.text)));
    ModelToolCall {
        made_with: (made_with != call.arguments).then_some(Value::Object(made_with)),
        id: call.id,
        name: call.name,
        arguments: Value::Object(call.arguments),
        starts,
        result,
        is_error,
    }
}

/// What the provider has sent of the thoughts of its model, in words.
fn thoughts(kept: &Kept) -> Option<String> {
    let mut found = Vec::new();
    gather(&kept.parts, false, &mut found);
    Some(found.join("\n\n")).filter(|text| !text.trim().is_empty())
}

/// Gathers texts from `part`: any text if it `is_thought`, else those below members that are thoughts.
fn gather(part: &Value, is_thought: bool, found: &mut Vec<String>) {
    match part {
        Value::String(text) if is_thought && !text.trim().is_empty() => found.push(text.clone()),
        Value::Array(parts) => parts.iter().for_each(|part| gather(part, is_thought, found)),
        Value::Object(members) => gather_members(members, is_thought, found),
        _ => {}
    }
}

fn gather_members(members: &Map<String, Value>, is_thought: bool, found: &mut Vec<String>) {
    // An item of reasoning has its words in `summary`, `content` or `text`; one of a message is what it has said.
    let kind = members.get("type").and_then(Value::as_str).unwrap_or_default();
    let is_thought = is_thought || kind.starts_with("reasoning") || kind.starts_with("summary");
    for (name, value) in members {
        let is_text = name == "text" && is_thought;
        if THOUGHTS.contains(&name.as_str()) || is_text {
            gather(value, true, found);
        } else if HOLDERS.contains(&name.as_str()) {
            gather(value, is_thought, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use patterns::turn::Checkpoint;
    use serde_json::json;

    fn checkpoint(data: Value) -> Progress {
        Progress::Checkpoint(Checkpoint { data, replace: false, summary: None })
    }

    #[test]
    fn answers_have_their_calls_with_what_came_of_them() {
        let call = |id: &str| json!({ "call": { "id": id, "name": "rm", "arguments": { "path": "/x" } }, "starts": 0 });
        let round =
            json!({ "text": "I remove it.", "calls": [call("c1_0"), call("c1_1")], "stop": "complete" });
        let reports = [
            checkpoint(json!({ "record": "noted", "id": "m", "text": "hurry" })),
            Progress::Usage(ModelUsage { error: Some("429".to_owned()), ..ModelUsage::new("m", 0, 0) }),
            Progress::Usage(ModelUsage::new("m", 10, 2)),
            checkpoint(json!({ "record": "answered", "round": round })),
            checkpoint(json!({ "record": "edited", "call": "c1_0", "arguments": { "path": "/y" } })),
            checkpoint(json!({ "record": "started", "call": "c1_0" })),
            checkpoint(
                json!({ "record": "finished", "call": "c1_0", "result": { "text": "gone", "isError": true } }),
            ),
            checkpoint(json!({ "a brain's": "own" })),
        ];
        let prompt = json!({ "turn": 1, "task": { "taskId": "t-1", "description": "tidy up" } });
        let began = TurnNote::Began(serde_json::from_value(prompt).unwrap());
        let notes: Vec<_> = std::iter::once(began).chain(reports.map(TurnNote::Reported)).collect();
        let lines =
            model_lines(&AgentId::parse("a-1").unwrap(), notes.iter().map(|note| (1, WallTime(5), note)));
        let [task, told, failed, ModelLine { what: ModelWords::Answered(reply), .. }] = lines.as_slice()
        else {
            panic!("{lines:#?}")
        };
        assert!(matches!(&task.what, ModelWords::Told { text, .. } if text.contains("tidy up")));
        assert!(matches!(&told.what, ModelWords::Told { text, .. } if text == "hurry"));
        assert!(matches!(&failed.what, ModelWords::Failed { code, .. } if code == "429"));
        assert_eq!(reply.usage.as_ref().map(|usage| usage.input_tokens), Some(10));
        let [made, open] = reply.calls.as_slice() else { panic!("{reply:#?}") };
        assert_eq!((&made.made_with, made.starts, made.is_error), (&Some(json!({ "path": "/y" })), 1, true));
        assert_eq!((made.result.as_deref(), &open.result, &open.made_with), (Some("gone"), &None, &None));
    }

    #[test]
    fn thoughts_are_read_in_the_forms_of_all_dialects() {
        let of = |parts: Value| thoughts(&Kept { by: String::new(), parts });
        let forms = [
            json!([{ "type": "thinking", "thinking": "hm", "signature": "s" }, { "type": "text", "text": "Hi" }]),
            json!([{ "type": "reasoning", "id": "r", "summary": [{ "type": "summary_text", "text": "hm" }], "encrypted_content": "e" },
                { "type": "message", "content": [{ "type": "output_text", "text": "Hi" }] }]),
            json!([{ "type": "reasoning", "content": [{ "type": "reasoning_text", "text": "hm" }] }]),
            json!({ "reasoning_content": "hm" }),
            json!({ "reasoning_details": [{ "type": "reasoning.text", "text": "hm", "signature": "s" }] }),
            json!({ "thinking_blocks": [{ "type": "thinking", "thinking": "hm", "signature": "s" }] }),
        ];
        for form in forms {
            assert_eq!(of(form.clone()).as_deref(), Some("hm"), "{form}");
        }
        assert_eq!(of(json!([{ "type": "redacted_thinking", "data": "x" }])), None);
    }
}
