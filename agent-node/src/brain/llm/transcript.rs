//! What an agent's model has said and called in a task. It is the fold of its records, each durable before what follows from it
//! happens, so that a turn goes on where the last one stopped.

use super::{
    model::{Kept, MEDIUM_BYTES, MediaRef, ModelMessage, StopReason, ToolCall, ToolText},
    prompts,
};
use patterns::turn::Checkpoint;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// One record of a transcript, as a checkpoint holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "record")]
pub(super) enum TranscriptRecord {
    /// The model answered. The calls in `started` begin with this record.
    #[serde(rename_all = "camelCase")]
    Answered { round: Box<Round> },
    /// A hook has allowed a call, with other arguments if it has named some.
    Checked {
        call: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Map<String, Value>>,
    },
    /// A person has approved a call with other arguments.
    Edited { call: String, arguments: Map<String, Value> },
    /// A hook has allowed the newest answer, or says why the turn does not end with it.
    #[serde(rename_all = "camelCase")]
    EndChecked {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        denied: Option<String>,
    },
    /// A call begins, again if it has begun before.
    Started { call: String },
    /// A call has ended.
    Finished {
        call: String,
        /// What came of it.
        result: ToolResult,
    },
    /// A turn of a context begins: what the model is told for it. In the context of a seat, it follows the turns before.
    Began {
        /// The id of its task.
        id: String,
        /// What the model reads.
        text: String,
        /// The images and files that come with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        media: Vec<MediaRef>,
    },
    /// The user says something more.
    #[serde(rename_all = "camelCase")]
    Noted {
        /// The id of the message.
        id: String,
        /// What the model reads.
        text: String,
        /// The images and files that come with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        media: Vec<MediaRef>,
    },
    /// No model could be reached.
    Paused,
    /// An answer broke off that had begun. It is asked for again.
    BrokeOff,
    /// The command of a tool server did not start as it should. The turn is tried again.
    ServerFailed,
    /// Content was dropped because the conversation was too long. Replaces all records before.
    Compacted {
        transcript: Transcript,
        /// What was dropped, for people.
        dropped: Vec<String>,
    },
}

impl TranscriptRecord {
    /// The checkpoint that holds it. One that replaces what was said in a context is a summary of the turns before, too.
    pub(super) fn into_checkpoint(self) -> Checkpoint {
        let (replace, summary) = match &self {
            Self::Compacted { transcript, dropped } if transcript.begun.is_some() => (
                true,
                Some(
                    transcript.summary.clone().unwrap_or_else(|| format!("dropped: {}", dropped.join(", "))),
                ),
            ),
            Self::Compacted { .. } => (true, None),
            _ => (false, None),
        };
        Checkpoint { data: serde_json::to_value(self).unwrap_or_default(), replace, summary }
    }
}

/// The conversation with the model after the task itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Transcript {
    /// What people said before the model's first answer, and in rounds that were dropped.
    #[serde(default)]
    pub(super) opening: Vec<UserWords>,
    /// The model's answers, oldest first.
    pub(super) rounds: Vec<Round>,
    /// Rounds that were dropped.
    #[serde(default)]
    pub(super) dropped: u32,
    /// How often in a row no model could be reached.
    #[serde(default)]
    pub(super) pauses: u32,
    /// How many answers in a row broke off.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) broken: u32,
    /// The ids of the user's messages and of the turns that are in it.
    #[serde(default)]
    pub(super) notes: BTreeSet<String>,
    /// What the model has written about the rounds that were dropped last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) summary: Option<String>,
    /// The answers before the turn that began last; absent if it is of no context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) begun: Option<u32>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// One answer of the model and what follows from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Round {
    #[serde(default)]
    pub(super) text: String,
    #[serde(default)]
    pub(super) calls: Vec<CallRecord>,
    /// Why its answer ended.
    pub(super) stop: StopReason,
    /// What it is told about its answer, for example what is wrong with it.
    #[serde(default)]
    pub(super) notes: Vec<String>,
    /// What people said after it.
    #[serde(default)]
    pub(super) said: Vec<UserWords>,
    /// Whether the answer was refused, and it is asked to repair it.
    #[serde(default)]
    pub(super) is_refused: bool,
    /// What it is told for the turns that began after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) next: Vec<UserWords>,
    /// What the provider of the answer wants back with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kept: Option<Kept>,
    /// Whether a hook has allowed the turn to end with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_allowed: bool,
}

impl Round {
    /// Whether the model has nothing more to do after it.
    pub(super) fn is_last(&self) -> bool {
        self.calls.is_empty() && self.notes.is_empty() && self.said.is_empty() && self.next.is_empty()
    }

    /// What people have said in it: their messages, and their answers to questions, each with the question.
    fn words_of_people(self) -> impl Iterator<Item = UserWords> {
        let answers = self.calls.into_iter().filter_map(|CallRecord { call, result, .. }| {
            let result = result.filter(|result| result.is_from_person)?;
            let arguments = Value::Object(call.arguments).to_string();
            let text = prompts::earlier_answer(&call.name, &arguments, &result.text);
            Some(UserWords { text, media: result.media })
        });
        answers.chain(self.said)
    }
}

/// What the model is told by others, with the images and files that come with it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "WordsForm", into = "WordsForm")]
pub(super) struct UserWords {
    pub(super) text: String,
    pub(super) media: Vec<MediaRef>,
}

/// Words without media are a text.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum WordsForm {
    Text(String),
    WithMedia { text: String, media: Vec<MediaRef> },
}

impl From<WordsForm> for UserWords {
    fn from(form: WordsForm) -> Self {
        match form {
            WordsForm::Text(text) => Self { text, media: Vec::new() },
            WordsForm::WithMedia { text, media } => Self { text, media },
        }
    }
}

impl From<UserWords> for WordsForm {
    fn from(UserWords { text, media }: UserWords) -> Self {
        if media.is_empty() { Self::Text(text) } else { Self::WithMedia { text, media } }
    }
}

impl UserWords {
    fn bytes(&self) -> usize {
        self.text.len() + self.media.len() * MEDIUM_BYTES
    }

    fn messages(&self) -> impl Iterator<Item = ModelMessage> {
        let media = (!self.media.is_empty()).then(|| ModelMessage::Media(self.media.clone()));
        std::iter::once(ModelMessage::User(self.text.clone())).chain(media)
    }
}

/// A call and how far it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct CallRecord {
    pub(super) call: ToolCall,
    /// What a hook has said of it; set if it has allowed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) checked: Option<CheckedCall>,
    /// With what a person has approved it; absent if as it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) edited: Option<EditedCall>,
    /// How often it was started.
    #[serde(default)]
    pub(super) starts: u32,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<ToolResult>,
}

/// A call that a hook has allowed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct CheckedCall {
    /// The arguments in place of the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) arguments: Option<Map<String, Value>>,
}

/// A call that a person has approved with other arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EditedCall {
    pub(super) arguments: Map<String, Value>,
    /// Whether a hook has allowed them.
    #[serde(default)]
    pub(super) is_allowed: bool,
}

impl CallRecord {
    /// The call as it is made: with the arguments that a person has named, else with those of a hook.
    pub(super) fn made(&self) -> ToolCall {
        let edited = self.edited.as_ref().map(|edited| edited.arguments.clone());
        let arguments =
            edited.or_else(|| self.checked.as_ref().and_then(|checked| checked.arguments.clone()));
        ToolCall { arguments: arguments.unwrap_or_else(|| self.call.arguments.clone()), ..self.call.clone() }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolResult {
    /// What the model reads.
    pub(super) text: String,
    /// Whether the call failed.
    #[serde(default)]
    pub(super) is_error: bool,
    /// Whether it has words of a person: an answer, or a decision. Compaction keeps them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_from_person: bool,
    /// The images and files that came with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) media: Vec<MediaRef>,
}

impl ToolResult {
    fn bytes(&self) -> usize {
        self.text.len() + self.media.len() * MEDIUM_BYTES
    }

    /// The result of a call that failed.
    pub(super) fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true, is_from_person: false, media: Vec::new() }
    }

    /// The result of a call that succeeded.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self { is_error: false, ..Self::error(text) }
    }

    /// The same, with words of a person.
    pub(super) fn of_person(self) -> Self {
        Self { is_from_person: true, ..self }
    }
}

impl Transcript {
    pub(super) fn apply(&mut self, record: TranscriptRecord) {
        match record {
            TranscriptRecord::Answered { round } => {
                (self.pauses, self.broken) = (0, 0);
                self.rounds.push(*round);
            }
            TranscriptRecord::Checked { call, arguments } => {
                if let Some(call) = self.call_mut(&call) {
                    match &mut call.edited {
                        Some(edited) => edited.is_allowed = true,
                        None => call.checked = Some(CheckedCall { arguments }),
                    }
                }
            }
            TranscriptRecord::Edited { call, arguments } => {
                if let Some(call) = self.call_mut(&call) {
                    call.edited = Some(EditedCall { arguments, is_allowed: false });
                }
            }
            TranscriptRecord::EndChecked { denied } => {
                if let Some(round) = self.rounds.last_mut() {
                    round.is_allowed = denied.is_none();
                    round.is_refused |= denied.is_some();
                    round.notes.extend(denied);
                }
            }
            TranscriptRecord::Started { call } => {
                if let Some(call) = self.call_mut(&call) {
                    call.starts += 1;
                }
            }
            TranscriptRecord::Finished { call, result } => {
                if let Some(call) = self.call_mut(&call) {
                    call.result = Some(result);
                }
            }
            TranscriptRecord::Began { id, text, media } => self.begin_turn(id, UserWords { text, media }),
            TranscriptRecord::Noted { id, text, media } => {
                self.notes.insert(id);
                let words = UserWords { text, media };
                match self.rounds.last_mut() {
                    Some(round) => round.said.push(words),
                    None => self.opening.push(words),
                }
            }
            TranscriptRecord::Paused => self.pauses += 1,
            TranscriptRecord::BrokeOff => self.broken += 1,
            TranscriptRecord::ServerFailed => {}
            TranscriptRecord::Compacted { transcript, .. } => *self = transcript,
        }
    }

    /// A turn of the context begins. The one before has ended: what it has called last has no other result.
    fn begin_turn(&mut self, id: String, words: UserWords) {
        (self.begun, self.pauses, self.broken) = (Some(self.answers()), 0, 0);
        self.notes.insert(id);
        for round in &mut self.rounds {
            round.is_refused = false;
        }
        match self.rounds.last_mut() {
            Some(round) => {
                for call in round.calls.iter_mut().filter(|call| call.result.is_none()) {
                    call.result = Some(ToolResult::text(prompts::turn_over()));
                }
                round.next.push(words);
            }
            None => self.opening.push(words),
        }
    }

    /// The answers of the turn so far.
    pub(super) fn answers_of_turn(&self) -> u32 {
        self.answers().saturating_sub(self.begun.unwrap_or_default())
    }

    /// How many of the oldest rounds a summary takes the place of, so that about `bytes` are left: none of the turn that runs.
    pub(super) fn rounds_to_sum_up(&self, bytes: usize) -> usize {
        let of_turn = usize::try_from(self.answers_of_turn()).unwrap_or(usize::MAX);
        let earlier = self.rounds.len().saturating_sub(of_turn);
        let mut rest = self.clone();
        let mut count = 0;
        while count < earlier && rest.bytes() > bytes {
            rest.sum_up(1, String::new());
            count += 1;
        }
        count
    }

    /// The oldest rounds, as the model reads them that sums them up.
    pub(super) fn oldest(&self, count: usize) -> Self {
        let mut rounds = self.rounds.get(..count).unwrap_or_default().to_vec();
        if let Some(last) = rounds.last_mut() {
            last.next.clear();
        }
        Self { rounds, ..self.clone() }
    }

    /// Puts a summary in the place of the oldest rounds.
    pub(super) fn sum_up(&mut self, count: usize, summary: String) {
        let dropped: Vec<Round> = self.rounds.drain(..count.min(self.rounds.len())).collect();
        self.dropped += u32::try_from(dropped.len()).unwrap_or(u32::MAX);
        self.opening = dropped.into_iter().next_back().map(|round| round.next).unwrap_or_default();
        self.summary = Some(summary);
    }

    fn call_mut(&mut self, id: &str) -> Option<&mut CallRecord> {
        self.rounds.last_mut()?.calls.iter_mut().find(|call| call.call.id == id)
    }

    /// A call of the newest answer.
    pub(super) fn call(&self, id: &str) -> Option<&CallRecord> {
        self.rounds.last()?.calls.iter().find(|call| call.call.id == id)
    }

    /// The ids that providers have given to calls.
    pub(super) fn provider_ids(&self) -> BTreeSet<String> {
        let calls = self.rounds.iter().flat_map(|round| &round.calls);
        calls.filter_map(|call| call.call.provider_id.clone()).collect()
    }

    /// All calls of the turn that are not dropped; of the task, if it belongs to no context.
    pub(super) fn calls(&self) -> impl Iterator<Item = &CallRecord> {
        let of_turn = usize::try_from(self.answers_of_turn()).unwrap_or(usize::MAX);
        let earlier = self.rounds.len().saturating_sub(of_turn);
        self.rounds.iter().skip(earlier).flat_map(|round| &round.calls)
    }

    /// The answers so far, dropped ones included.
    pub(super) fn answers(&self) -> u32 {
        u32::try_from(self.rounds.len()).unwrap_or(u32::MAX).saturating_add(self.dropped)
    }

    /// How many of the newest answers were refused in a row.
    pub(super) fn refused_in_a_row(&self) -> usize {
        self.rounds.iter().rev().take_while(|round| round.is_refused).count()
    }

    /// The conversation as the model reads it, and the place of the message `task`, which says what the turn is about. Without a
    /// context that is the first one, with `media`; in a context it takes the place of what is recorded of it.
    pub(super) fn messages(
        &self,
        (task, recorded): (&str, &str),
        media: &[MediaRef],
    ) -> (Vec<ModelMessage>, usize) {
        let mut messages = Vec::new();
        if self.begun.is_none() {
            let first = UserWords { text: task.to_owned(), media: media.to_vec() };
            messages.extend(first.messages());
        }
        messages.extend(self.summary.iter().map(|text| ModelMessage::User(prompts::summary(text))));
        messages.extend(self.opening.iter().flat_map(UserWords::messages));
        if self.dropped > 0 && self.summary.is_none() {
            messages.push(ModelMessage::User(prompts::dropped_rounds(self.dropped)));
        }
        for round in &self.rounds {
            let calls = round.calls.iter().map(|call| call.call.clone()).collect();
            let (text, kept) = (round.text.clone(), round.kept.clone());
            messages.push(ModelMessage::Assistant { text, calls, kept });
            let results = round.calls.iter().filter_map(|call| {
                let result = call.result.as_ref()?;
                let text = ToolText { text: result.text.clone(), is_error: result.is_error };
                Some((call.call.id.clone(), text))
            });
            let results: Vec<_> = results.collect();
            if !results.is_empty() {
                messages.push(ModelMessage::Results(results));
            }
            let media = round.calls.iter().filter_map(|call| call.result.as_ref());
            let media: Vec<_> = media.flat_map(|result| result.media.iter().cloned()).collect();
            if !media.is_empty() {
                messages.push(ModelMessage::Media(media));
            }
            messages.extend(round.notes.iter().cloned().map(ModelMessage::User));
            messages.extend(round.said.iter().chain(&round.next).flat_map(UserWords::messages));
        }
        let is_recorded =
            |message: &ModelMessage| matches!(message, ModelMessage::User(text) if text == recorded);
        let place = match self.begun {
            Some(_) => messages.iter().rposition(is_recorded),
            None => Some(0),
        };
        if let Some(message) = place.and_then(|place| messages.get_mut(place)) {
            *message = ModelMessage::User(task.to_owned());
        }
        (messages, place.unwrap_or(usize::MAX))
    }

    /// About how many bytes the model reads of it.
    pub(super) fn bytes(&self) -> usize {
        let of_round = |round: &Round| {
            let calls = round.calls.iter().map(|call| {
                call.call.name.len()
                    + serde_json::to_string(&call.call.arguments).map_or(0, |text| text.len())
                    + call.result.as_ref().map_or(0, ToolResult::bytes)
            });
            let words = round.said.iter().chain(&round.next).map(UserWords::bytes);
            let notes = round.notes.iter().map(String::len).chain(words);
            let kept = round.kept.as_ref().map_or(0, |kept| kept.parts.to_string().len());
            round.text.len() + calls.sum::<usize>() + notes.sum::<usize>() + kept
        };
        let before = self.opening.iter().map(UserWords::bytes).sum::<usize>();
        before
            + self.summary.as_ref().map_or(0, String::len)
            + self.rounds.iter().map(of_round).sum::<usize>()
    }

    /// Drops content until at most `bytes` are left: the oldest results first, then the oldest rounds. The newest two rounds
    /// stay, and all that people have said. Returns what was dropped.
    pub(super) fn compact(&mut self, bytes: usize) -> Vec<String> {
        let mut dropped = Vec::new();
        let newest = self.rounds.len().saturating_sub(KEPT_ROUNDS);
        for at in 0..newest {
            for call in 0..self.rounds[at].calls.len() {
                if self.bytes() <= bytes {
                    return dropped;
                }
                let CallRecord { call, result, .. } = &mut self.rounds[at].calls[call];
                let is_dropped =
                    |result: &&mut ToolResult| result.bytes() > MIN_DROPPED && !result.is_from_person;
                if let Some(result) = result.as_mut().filter(is_dropped) {
                    dropped.push(format!(
                        "the result of {} ({}), {} bytes",
                        call.name,
                        call.id,
                        result.text.len()
                    ));
                    prompts::dropped_result().clone_into(&mut result.text);
                    result.media.clear();
                }
            }
        }
        let mut rounds = 0;
        while self.bytes() > bytes && self.rounds.len() > KEPT_ROUNDS {
            let mut oldest = self.rounds.remove(0);
            let next = std::mem::take(&mut oldest.next);
            self.opening.extend(oldest.words_of_people());
            if !next.is_empty() {
                // The turns before these are over.
                self.opening = next;
            }
            rounds += 1;
        }
        if rounds > 0 {
            self.summary = None;
            self.dropped += rounds;
            dropped.push(format!("the oldest {rounds} steps"));
        }
        dropped
    }
}

/// The newest rounds, which compaction does not touch.
const KEPT_ROUNDS: usize = 2;
/// Shorter results stay: their place in the conversation takes as much.
const MIN_DROPPED: usize = 200;

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Map;

    /// A round with calls `c{number}_{at}` and their results.
    pub(crate) fn round(number: u32, results: &[&str]) -> Round {
        let call = |(at, text): (usize, &&str)| CallRecord {
            call: ToolCall {
                id: format!("c{number}_{at}"),
                name: "log".into(),
                arguments: Map::new(),
                invalid: None,
                provider_id: None,
                extra: None,
            },
            checked: None,
            edited: None,
            starts: 1,
            result: Some(ToolResult::text(*text)),
        };
        let calls = results.iter().enumerate().map(call).collect();
        let (notes, said, next) = (Vec::new(), Vec::new(), Vec::new());
        Round {
            text: "t".into(),
            calls,
            stop: StopReason::Complete,
            notes,
            said,
            is_refused: false,
            next,
            kept: None,
            is_allowed: false,
        }
    }

    #[test]
    fn compaction_drops_the_oldest_results_first_then_rounds() {
        let long = "x".repeat(1_000);
        let mut transcript = Transcript::default();
        for number in 1..=4 {
            transcript
                .apply(TranscriptRecord::Answered { round: Box::new(round(number, &[&long, "short"])) });
        }
        let mut one = transcript.clone();
        assert_eq!(one.compact(3_500), ["the result of log (c1_0), 1000 bytes"]);
        assert_eq!(one.rounds.len(), 4);
        let mut most = transcript.clone();
        let dropped = most.compact(10);
        assert_eq!((most.rounds.len(), most.dropped, dropped.len()), (2, 2, 3), "{dropped:?}");
        assert_eq!(most.answers(), 4, "ids of later calls are new");
        assert!(most.compact(10).is_empty(), "nothing is left to drop");
    }

    #[test]
    fn what_people_said_survives_compaction_in_its_order() {
        let long = "x".repeat(1_000);
        let mut transcript = Transcript::default();
        let said = |at: u32| TranscriptRecord::Noted {
            id: format!("m{at}"),
            text: format!("said {at}"),
            media: Vec::new(),
        };
        transcript.apply(said(0));
        for number in 1..=5 {
            let mut round = round(number, &[&long, "short"]);
            round.notes.push("cut".to_owned());
            if number == 2 {
                let answer = ToolResult::text(format!("{long} answered")).of_person();
                round.calls[0].call.arguments.insert("question".into(), "red or blue?".into());
                round.calls[0].result = Some(answer);
            }
            transcript.apply(TranscriptRecord::Answered { round: Box::new(round) });
            transcript.apply(said(number));
        }
        transcript.compact(0);
        assert_eq!((transcript.rounds.len(), transcript.dropped), (2, 3));
        let text = |message: ModelMessage| match message {
            ModelMessage::User(text) => text,
            ModelMessage::Assistant { .. } | ModelMessage::Results(_) | ModelMessage::Media(_) => {
                String::new()
            }
        };
        let texts: Vec<_> = transcript.messages(("task", ""), &[]).0.into_iter().map(text).collect();
        let all = texts.concat();
        let found = |part: &str| all.find(part).unwrap_or_else(|| panic!("no {part} in {all}"));
        let order = ["said 0", "said 1", "red or blue?", "answered", "said 2", "said 3", "said 4", "said 5"];
        assert!(order.map(found).is_sorted(), "{all}");
        assert_eq!(all.matches("said").count(), 6, "once each: {all}");
        assert_eq!(all.matches("cut").count(), 2, "a note on an answer goes with it");
    }

    #[test]
    fn media_stay_with_what_they_came_with_and_old_records_can_be_read() {
        use crate::brain::llm::media::tests::medium;
        let [first, shot, later] =
            ["first.png", "shot.png", "later.png"].map(|name| medium(name, "image/png", 9));
        let mut answered = round(1, &["short", "none"]);
        answered.calls[0].result.as_mut().unwrap().media = vec![shot.clone()];
        let noted = TranscriptRecord::Noted { id: "m".into(), text: "n".into(), media: vec![later.clone()] };
        let records = [TranscriptRecord::Answered { round: Box::new(answered) }, noted];
        let mut transcript = Transcript::default();
        for record in records {
            let text = serde_json::to_string(&record).unwrap();
            transcript.apply(serde_json::from_str(&text).unwrap());
        }
        let whole: Transcript = serde_json::from_value(serde_json::to_value(&transcript).unwrap()).unwrap();
        assert_eq!(whole, transcript);
        let shown = |transcript: &Transcript| {
            let (messages, _) = transcript.messages(("task", ""), std::slice::from_ref(&first));
            let place = |(at, message): (usize, &ModelMessage)| match message {
                ModelMessage::Media(media) => Some((at, media[0].name.clone().unwrap())),
                _ => None,
            };
            messages.iter().enumerate().filter_map(place).collect::<Vec<_>>()
        };
        let expected = [(1, "first.png"), (4, "shot.png"), (6, "later.png")];
        assert_eq!(shown(&transcript), expected.map(|(at, name)| (at, name.to_owned())));
        for number in 2..=3 {
            transcript.apply(TranscriptRecord::Answered { round: Box::new(round(number, &["x"])) });
        }
        let before = transcript.bytes();
        assert_eq!(transcript.compact(before - 1), ["the result of log (c1_0), 5 bytes"]);
        assert!(transcript.bytes() + MEDIUM_BYTES / 2 < before);
        let expected = [(1, "first.png"), (5, "later.png")];
        assert_eq!(shown(&transcript), expected.map(|(at, name)| (at, name.to_owned())));
        let old: Transcript =
            serde_json::from_value(serde_json::json!({ "opening": ["a"], "rounds": [] })).unwrap();
        assert_eq!(old.opening, [UserWords::from(WordsForm::Text("a".into()))]);
        assert_eq!(serde_json::to_value(&old).unwrap()["opening"], serde_json::json!(["a"]));
    }

    fn records() -> impl Strategy<Value = Vec<TranscriptRecord>> {
        let id = (1u32..5, 0usize..2).prop_map(|(round, at)| format!("c{round}_{at}"));
        let one = prop_oneof![
            (1u32..5, proptest::collection::vec("[a-z]{0,400}", 0..3)).prop_map(|(number, results)| {
                let results: Vec<_> = results.iter().map(String::as_str).collect();
                TranscriptRecord::Answered { round: Box::new(round(number, &results)) }
            }),
            id.clone().prop_map(|call| TranscriptRecord::Started { call }),
            id.prop_map(|call| TranscriptRecord::Finished { call, result: ToolResult::text("r") }),
            Just(TranscriptRecord::Noted { id: "m".into(), text: "n".into(), media: Vec::new() }),
            Just(TranscriptRecord::Paused),
            Just(TranscriptRecord::BrokeOff),
        ];
        proptest::collection::vec(one, 0..12)
    }

    proptest! {
        #[test]
        fn records_survive_json_and_compaction_keeps_calls_and_results_together(
            records in records(), bytes in 0usize..3_000,
        ) {
            let mut transcript = Transcript::default();
            for record in records {
                let text = serde_json::to_string(&record).unwrap();
                transcript.apply(serde_json::from_str(&text).unwrap());
            }
            let (answers, before) = (transcript.answers(), transcript.bytes());
            transcript.compact(bytes);
            prop_assert!(transcript.bytes() <= before);
            prop_assert_eq!(transcript.answers(), answers);
            let (messages, _) = transcript.messages(("task", ""), &[]);
            for (at, message) in messages.iter().enumerate() {
                if let ModelMessage::Results(results) = message {
                    let ModelMessage::Assistant { calls, .. } = &messages[at - 1] else { panic!("{messages:?}") };
                    prop_assert_eq!(results.len(), calls.len());
                }
            }
        }
    }
}
