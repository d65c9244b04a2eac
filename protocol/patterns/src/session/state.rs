//! The state of a session: which stage and seat is where. What was said is in the task's log; here are its numbers.

use super::{
    graph::{Graph, SeatOrder, Stage},
    names::{HOST, PASSES, PERSON},
};
use crate::{ChunkRange, speech::SideMode};
use protocol::{
    ids::{Address, AgentId, Digest},
    time::WallTime,
};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use std::collections::{BTreeMap, BTreeSet};

/// The turns whose beginnings are kept for an agent that takes a seat over, and the most characters of each.
const MAX_GIST: usize = 64;
const MAX_GIST_CHARS: usize = 160;

/// Reads a map with numbers as keys. In JSON these are texts, and a tagged enum such as [`crate::AnyPattern`] leaves them texts.
pub(super) fn number_keys<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    map: D,
) -> Result<BTreeMap<usize, T>, D::Error> {
    let texts = BTreeMap::<String, T>::deserialize(map)?;
    texts.into_iter().map(|(key, value)| Ok((key.parse().map_err(D::Error::custom)?, value))).collect()
}

/// Where a stage is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum StageState {
    /// Stages before it have not ended.
    #[default]
    Waiting,
    Running,
    /// A person is asked about its result.
    Gated,
    /// It has ended with a label.
    Done,
    Failed,
    /// A stage that it needs has failed.
    Blocked,
    /// Another way was taken.
    Skipped,
}

impl StageState {
    /// Whether it has ended.
    pub(super) fn has_ended(self) -> bool {
        match self {
            Self::Done | Self::Failed | Self::Blocked | Self::Skipped => true,
            Self::Waiting | Self::Running | Self::Gated => false,
        }
    }
}

/// Where a seat is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub(super) enum SeatState {
    /// It waits for its turn.
    #[default]
    Idle,
    /// It has its turn.
    Speaking {
        /// The name of the turn.
        turn: String,
    },
    /// It is done with the stage.
    Done,
    /// Its turns have failed.
    Failed { why: String },
}

/// A seat of a running stage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SeatRun {
    #[serde(flatten)]
    pub(super) state: SeatState,
    /// The agent that has taken it, if it is a capability's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) filled: Option<AgentId>,
    /// The beginning of what it has said in each of its last turns, if it is a capability's: an agent that takes it over is told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) gist: Vec<String>,
    /// Its turns, those that failed included.
    pub(super) turns: u32,
    /// Failures of its current turn.
    pub(super) failures: u32,
    /// Why the last of them failed; the turn that tries it again is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_failure: Option<String>,
    /// When the doer of its turn has last reported; `None` while that does not work on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reported: Option<WallTime>,
    /// The number of the next message that it has not seen.
    pub(super) seen: u64,
    /// Whether it is to have a turn outside of the order of the stage.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) due: bool,
    /// Whether a message has reopened it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) reopened: bool,
    /// Its messages that were not delivered, and why; its next turn is told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) refused: Vec<String>,
}

/// An item of a work plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WorkItem {
    /// Its name within the plan.
    pub(super) id: String,
    /// What is to be done.
    pub(super) task: String,
    pub(super) who: Address,
    /// The items that come before it, by their ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) after: Vec<String>,
    /// The files that it writes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) files: Vec<String>,
    /// The expected outcomes that it serves, by their numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) outcomes: Vec<usize>,
}

/// A file that a turn has made: an artifact in the task's log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MadeFile {
    pub(super) name: String,
    pub(super) artifact: String,
    pub(super) chunks: ChunkRange,
    pub(super) bytes: usize,
    /// Of its content.
    pub(super) digest: Digest,
}

/// A side conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SideConversation {
    /// Who has opened it, and with whom.
    pub(super) seats: [usize; 2],
    /// Whose turn is next; the place in `seats`.
    pub(super) next: usize,
    /// The number of the first message: it tells this conversation from others.
    pub(super) first: u64,
    /// The messages so far.
    pub(super) messages: u32,
    /// Whether its time runs.
    pub(super) has_begun: bool,
    /// The beginning of the last message of each.
    pub(super) last: [String; 2],
    /// Whether the two talk, or one works for the other.
    #[serde(skip_serializing_if = "SideMode::is_dialogue")]
    pub(super) mode: SideMode,
}

impl SeatRun {
    /// Notes the beginning of what it has said in a turn.
    pub(super) fn note_gist(&mut self, text: &str) {
        let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or(PASSES);
        self.gist.push(line.chars().take(MAX_GIST_CHARS).collect());
        self.gist.drain(..self.gist.len().saturating_sub(MAX_GIST));
    }

    pub(super) fn is_speaking(&self) -> bool {
        matches!(self.state, SeatState::Speaking { .. })
    }
}

/// A part of the request that an agent was matched to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MatchedItem {
    pub(super) alias: String,
    pub(super) agent: String,
}

/// What becomes of the discussion of a stage that has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Discussion {
    /// Its result is all.
    #[default]
    None,
    /// A stage that follows is given it: the host writes it down before that begins.
    Wanted,
    /// The host is at it.
    InWork,
}

impl Discussion {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

fn is_zero_pair(numbers: &(u64, usize)) -> bool {
    *numbers == (0, 0)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
pub(super) fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A stage as it runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct StageRun {
    pub(super) state: StageState,
    /// How often it was begun.
    pub(super) iteration: u32,
    /// How often it has gone back.
    pub(super) looped: u32,
    pub(super) round: u32,
    pub(super) seats: Vec<SeatRun>,
    /// The member that had its turn last.
    pub(super) spoke: usize,
    /// The beginning of its words, if other turns may follow before they count.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) words: String,
    /// The side conversation for which it pauses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) side: Option<SideConversation>,
    /// The seat that has its turn again, because another one has worked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) again: Option<usize>,
    /// How often the seat whose turn it is has given work away in this round.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) given_back: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) opened: Option<WallTime>,
    /// What the question at its gate shows of its last words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) shown: String,
    /// How often candidates were dropped at its gate: each question there has a name of its own.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) kills: u32,
    /// Since when a person is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gated: Option<WallTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) label: Option<String>,
    /// Why it ended so, or why it waits no longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// Whether something that it was made of is missing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) partial: bool,
    /// What its seats have contributed to the team.
    pub(super) findings: u32,
    /// Its end waits for running turns.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) closing: bool,
    /// The content of the round so far, and of the one before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) this_round: Option<Digest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_round: Option<Digest>,
    /// Whether a member has worked in the round, whatever it has said.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) acted: bool,
    /// How many rounds in a row nobody has worked in, with the same words, or with none.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) still: u32,
    /// The number of the first chunk of what was said in it, and the bytes of what was said to all from there on.
    #[serde(skip_serializing_if = "is_zero_pair")]
    pub(super) discussed: (u64, usize),
    /// Whether all that was said to all is to be written down for the stages after it.
    #[serde(skip_serializing_if = "Discussion::is_none")]
    pub(super) discussion: Discussion,
    /// The last words of each seat, for the stages after it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) result: Vec<Said>,
    /// The files that its seats have made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) files: Vec<MadeFile>,
    /// The commit that its turns begin with, and the work of the host that makes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) base: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) integrating: Option<String>,
    /// What each of its seats has committed last, and the files that this changes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "number_keys")]
    pub(super) commits: BTreeMap<usize, String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) changed: BTreeSet<String>,
    /// The work that it has planned, until that becomes stages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) plan: Vec<WorkItem>,
    /// What it has matched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) items: Vec<MatchedItem>,
    /// What it is given when it is begun again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) feedback: Vec<Said>,
}

impl StageRun {
    /// Nothing of its table is left when it has ended.
    pub(super) fn clear_table(&mut self) {
        self.closing = false;
        self.words.clear();
        self.side = None;
        self.again = None;
        self.given_back = 0;
    }
}

/// Something that a seat has said: artifacts in the task's log.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Said {
    /// Counts what was said in the session.
    pub(super) number: u64,
    pub(super) stage: usize,
    /// The iteration of its stage, and the round.
    #[serde(default)]
    pub(super) round: (u32, u32),
    /// The seat; a person, if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) seat: Option<usize>,
    /// The seats that it is for; all, if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) to: Vec<usize>,
    pub(super) artifacts: Vec<String>,
    pub(super) chunks: ChunkRange,
    pub(super) bytes: usize,
    /// The beginning of the words, at whose gate candidates may be dropped.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) head: String,
    /// Whether it is the text or result of a turn, not a message on the way.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_last_word: bool,
    /// Who says it, if neither a seat in its turn nor a person does: the host, or a supervisor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) by: Option<String>,
}

/// A constraint for turns from now on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Amendment {
    /// What is said; it may be for some seats of its stage.
    #[serde(flatten)]
    pub(super) said: Said,
    /// The stage that it is for; all, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) place: Option<usize>,
}

impl Amendment {
    /// Whether it is for a seat of a stage.
    pub(super) fn is_for(&self, (place, seat): (usize, usize)) -> bool {
        self.place
            .is_none_or(|only| only == place && (self.said.to.is_empty() || self.said.to.contains(&seat)))
    }
}

impl Said {
    /// The name of who has said it.
    pub(super) fn speaker<'a>(&'a self, stage: &'a Stage) -> &'a str {
        let seat = self.seat.and_then(|seat| stage.seats.get(seat));
        let other = self.by.as_deref().unwrap_or(PERSON);
        seat.map_or(other, |seat| seat.name.as_str())
    }

    /// Its place among what a turn is given. What seats say at once is in the order of their list, whoever was first: the same
    /// work gives the same prompt.
    pub(super) fn position(&self, graph: &Graph) -> (usize, (u32, u32), usize, u64) {
        let is_at_once = |stage: &Stage| stage.order == SeatOrder::Parallel;
        match graph.stages.get(self.stage).is_some_and(is_at_once) {
            true => (self.stage, self.round, self.seat.unwrap_or(usize::MAX), self.number),
            false => (self.stage, (0, 0), 0, self.number),
        }
    }

    /// Whether the host has written it down of a whole stage.
    pub(super) fn is_discussion(&self) -> bool {
        self.by.as_deref() == Some(HOST) && self.to.is_empty()
    }

    /// Whether a person has said it to seat `seat` of stage `place` while that had its turn.
    pub(super) fn is_unseen(&self, place: usize, seat: usize, taken: &SeatRun) -> bool {
        let is_persons = self.seat.is_none() && self.by.is_none();
        let is_for = self.to.is_empty() || self.to.contains(&seat);
        self.stage == place && is_persons && is_for && self.number >= taken.seen
    }

    /// Whether seat `place` of its stage may see it.
    pub(super) fn is_for(&self, place: usize, stage: &Stage) -> bool {
        self.to.is_empty() || self.to.contains(&place) || self.seat == Some(place) || stage.watches(place)
    }
}

/// The chunks that hold these words, and what lies between.
pub(super) fn chunks<'a>(given: impl IntoIterator<Item = &'a Said>) -> ChunkRange {
    let joined = |a: ChunkRange, b: ChunkRange| ChunkRange { from: a.from.min(b.from), to: a.to.max(b.to) };
    given.into_iter().map(|said| said.chunks).reduce(joined).unwrap_or_default()
}
