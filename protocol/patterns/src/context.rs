//! Contexts: what one agent has done on one seat of a session, or in one A2A context of a user, turn by turn. Each turn is a task of
//! its own; the next one goes on from those before it.
//!
//! A task is told where it goes on from once, before its first turn. That is in the state of its conversation, so that a turn that
//! begins again is given the same. The content of earlier turns stays in the logs of their tasks.

use crate::{ChunkRange, session::seat};
use protocol::{
    compaction::{Compaction, KeptTurns},
    handoff::Handover,
    ids::{AgentId, ConversationId, Digest},
    principal::Principal,
    task::{TaskSpec, TaskTerms},
    words::cut,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The most turns that are given whole.
const MAX_TURNS: usize = 256;

/// The most bytes of all turns that are given whole.
const MAX_BYTES: u64 = 4 << 20;

/// The most characters of the line about a turn.
const MAX_LINE: usize = 240;

/// The most bytes of the lines about turns that are long ago.
const MAX_OLD: usize = 8 * 1024;

/// How many of the newest turns are looked at; a line each is kept of those before.
const MAX_LISTED: usize = 512;

/// The kinds of turns that a context tells apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ContextTurnKind {
    /// At a table.
    Table,
    /// In a side conversation.
    Side,
    #[default]
    Task,
}

/// A turn that has ended, as its context keeps it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndedTurn {
    pub kind: ContextTurnKind,
    /// Where it was, for people and models; empty if it was on no seat.
    pub place: String,
    /// The beginning of what the user has said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub asked: String,
    /// The beginning of its last words.
    pub said: String,
    /// The checkpoints that count.
    pub checkpoints: ChunkRange,
    /// About how many bytes it has if it is given whole.
    pub bytes: u64,
    /// What is left of the turns before it, in the brain's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The agent that has answered, if the chat was handed over to another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<AgentId>,
}

impl EndedTurn {
    /// The turn of a task that has ended with `said`.
    pub fn new(spec: &TaskTerms, said: &str) -> Self {
        let (kind, place) = place(spec.input.as_ref());
        let first_line = |text: &str| cut(text.trim().lines().next().unwrap_or_default(), MAX_LINE);
        let asked = if place.is_empty() { first_line(&spec.description) } else { String::new() };
        Self { kind, place, asked, said: first_line(said), ..Self::default() }
    }

    /// The line about it.
    pub fn line(&self) -> String {
        let said = if self.said.is_empty() { "nothing was said" } else { &self.said };
        match self.place.as_str() {
            "" => match &self.by {
                Some(by) => format!("- asked: {}; {by} answered: {said}\n", self.asked),
                None => format!("- asked: {}; answered: {said}\n", self.asked),
            },
            place => format!("- {place}: {said}\n"),
        }
    }
}

/// Where a turn with this input is.
fn place(input: Option<&Value>) -> (ContextTurnKind, String) {
    let Some(seat) = input.and_then(|input| input.get("seat")) else {
        return (ContextTurnKind::Task, String::new());
    };
    let text = |name: &str| seat[name].as_str().unwrap_or_default();
    let mut place = format!("stage {}, round {}", text("stage"), seat["round"]);
    if seat["iteration"].as_u64().is_some_and(|iteration| iteration > 1) {
        place =
            format!("stage {} (begun {} times), round {}", text("stage"), seat["iteration"], seat["round"]);
    }
    match seat["side"]["with"].as_str() {
        Some(with) => (ContextTurnKind::Side, format!("{place}, alone with {with}")),
        None if text("order") == "turns" => (ContextTurnKind::Table, place),
        None => (ContextTurnKind::Task, place),
    }
}

/// The name of the context in which `owner` has an agent do this task: the A2A context of a user, or for a seat of a session, that
/// seat. Two users who name theirs alike have two. What another agent sends over A2A is in no context: its words are data, and not
/// those of a person; only a chat that an agent has handed over goes on as one, under a name that is unique for that agent. The name of a seat's context is known to the host of the session only. A sealed stage has contexts of its own,
/// so that what its seats have heard elsewhere stays out; and so has each item of a plan, whose seats are called alike and work at
/// once.
pub fn name(spec: &TaskSpec, owner: &Principal) -> Option<String> {
    let tenant = spec.contact.as_ref().and_then(|contact| contact.tenant.as_deref());
    let Some(seat) = spec.input.as_ref().filter(|input| seat::is_seat_input(Some(input))) else {
        if let (Some(handed), Principal::Agent(_)) = (&spec.handed, owner) {
            return Some(named(&json!([owner, spec.root, "handed", handed.chat])));
        }
        let is_user = matches!((owner, &spec.root), (Principal::User(_), Principal::User(_)));
        let context = spec.contact.as_ref().filter(|_| is_user)?.context_id.as_deref()?;
        return Some(name_of((owner, &spec.root), tenant, context));
    };
    let seat = seat.get("seat")?;
    let (session, seat_name) = (seat.get("session")?.as_str()?, seat.get("seat")?.as_str()?);
    let stage = seat.get("stage").and_then(Value::as_str);
    let own_stage = stage.filter(|stage| seat::is_sealed(spec) || stage.contains('/'));
    Some(named(&json!([owner, spec.root, tenant, session, seat_name, own_stage])))
}

/// The name of the A2A context `context` of a tenant, for its owner and the root of its tasks.
pub fn name_of((owner, root): (&Principal, &Principal), tenant: Option<&str>, context: &str) -> String {
    named(&json!([owner, root, tenant, context]))
}

fn named(key: &Value) -> String {
    let digest = Digest::of(key.to_string().as_bytes()).to_string();
    digest.trim_start_matches("sha256:").chars().take(32).collect()
}

/// What is kept of turns that are long ago.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContextHead {
    /// What was said before the context came to this agent, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    before: String,
    /// The lines about them.
    old: String,
    /// How many have no line any more.
    dropped: u64,
    /// The revision of the last of them.
    pub after: u64,
    /// The turn with the last summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<ContextBase>,
}

/// The turn that has summed up those before it. It is given whole, whatever comes after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct ContextBase {
    conversation: ConversationId,
    bytes: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    summary: String,
}

impl ContextHead {
    fn add(&mut self, revision: u64, turn: &EndedTurn) {
        self.after = revision;
        self.old.push_str(&turn.line());
        while self.old.len() > MAX_OLD
            && let Some(end) = self.old.find('\n')
        {
            self.old.drain(..=end);
            self.dropped += 1;
        }
    }
}

/// From where a task goes on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContextStart {
    head: ContextHead,
    /// A line about each turn that is not given whole.
    pub summary: String,
    /// The conversations of the turns that are given whole, the oldest first.
    pub turns: Vec<ConversationId>,
    /// With whom the context goes on, if it was handed over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handover: Option<Box<Handover>>,
}

impl ContextStart {
    /// From where a task with this input goes on, of the turns behind `head`, the oldest first, each with its revision.
    pub fn new(
        mut head: ContextHead,
        mut ended: Vec<(u64, ConversationId, EndedTurn)>,
        compaction: Compaction,
        input: Option<&Value>,
    ) -> Self {
        // What is before the last summary is in it.
        let summed_up = ended.iter().rposition(|(_, _, turn)| turn.summary.is_some());
        if let Some((after, conversation, turn)) = summed_up.and_then(|at| ended.drain(..=at).next_back()) {
            let summary = turn.summary.unwrap_or_default();
            let base = Some(ContextBase { conversation, bytes: turn.bytes, summary });
            head = ContextHead { after, base, ..ContextHead::default() };
        }
        let base = head.base.clone();
        let old = ended.len().saturating_sub(MAX_LISTED);
        for (revision, _, turn) in ended.drain(..old) {
            head.add(revision, &turn);
        }
        let (kind, here) = place(input);
        let mut kept = [
            (ContextTurnKind::Table, compaction.table),
            (ContextTurnKind::Side, compaction.side),
            (ContextTurnKind::Task, compaction.tasks),
        ]
        .map(|(kind, kept)| (kind, kept.unwrap_or_default()));
        // A side conversation that goes on is no earlier one.
        let mut goes_on = kind == ContextTurnKind::Side;
        let (mut turns, mut lines) = (Vec::new(), Vec::new());
        let mut bytes = base.as_ref().map_or(0, |base| base.bytes);
        for (_, conversation, turn) in ended.into_iter().rev() {
            goes_on &= turn.place == here;
            let kept = kept.iter_mut().find(|(kind, _)| *kind == turn.kind).map(|(_, kept)| kept);
            let is_kept = goes_on || kept.is_some_and(takes);
            bytes += if is_kept { turn.bytes } else { 0 };
            match is_kept && turns.len() < MAX_TURNS && bytes <= MAX_BYTES {
                true => turns.push(conversation),
                false => lines.push(turn.line()),
            }
        }
        turns.extend(base.map(|base| base.conversation));
        turns.reverse();
        let mut summary = head.old.clone();
        if head.dropped > 0 {
            summary.insert_str(0, &format!("- {} turns before these\n", head.dropped));
        }
        summary.extend(lines.into_iter().rev());
        Self { head, summary, turns, handover: None }
    }

    /// The same, of a context that goes on with another agent.
    #[must_use]
    pub fn handed_over(self, handover: Option<Box<Handover>>) -> Self {
        Self { handover, ..self }
    }

    /// What is left of what was said long ago, in words: the brain's own summary, and the lines about later turns.
    pub fn words(&self) -> String {
        let own = self.head.base.as_ref().map(|base| base.summary.trim()).filter(|own| !own.is_empty());
        let own = own.map(|own| format!("{own}\n")).unwrap_or_default();
        cut(&(own + &self.summary), MAX_OLD)
    }

    /// What was said before the context came to this agent.
    pub fn before(&self) -> &str {
        &self.head.before
    }

    /// Whether nothing was done before.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty() && self.summary.is_empty()
    }
}

/// Whether one more turn is kept whole.
fn takes(kept: &mut KeptTurns) -> bool {
    match kept {
        KeptTurns::Full => true,
        KeptTurns::Summary => false,
        KeptTurns::Last(left) => {
            let has_room = *left > 0;
            *left = left.saturating_sub(1);
            has_room
        }
    }
}

/// The context of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskContext {
    /// Its name.
    pub name: String,
    /// From where the task goes on; absent while another turn of the context is not over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<ContextStart>,
}

/// What a task adds to its context when it ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextEntry {
    /// The name of the context.
    pub name: String,
    pub head: ContextHead,
    pub turn: EndedTurn,
}

impl TaskContext {
    /// What is added when the task ends with `turn`; nothing if it has not begun. The first turn of a chat that was handed over keeps
    /// what was said before.
    pub(super) fn entry(&self, turn: EndedTurn, spec: &TaskSpec) -> Option<ContextEntry> {
        let start = self.start.as_ref()?;
        let mut head = start.head.clone();
        if let Some(handed) = spec.handed.as_ref().filter(|_| start.is_empty()) {
            head.before = handed.words(&spec.history, MAX_OLD);
        }
        Some(ContextEntry { name: self.name.clone(), head, turn })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn input(stage: &str, round: u32, side: Option<&str>) -> Value {
        let mut seat =
            json!({ "session": "s-1", "stage": stage, "seat": "a", "round": round, "order": "turns" });
        if let Some(with) = side {
            seat["side"] = json!({ "with": with });
        }
        json!({ "seat": seat })
    }

    fn ended(revision: u64, input: &Value, said: &str, bytes: u64) -> (u64, ConversationId, EndedTurn) {
        let id = ConversationId::parse(&format!("c-{revision}")).unwrap();
        let terms = serde_json::from_value(json!({ "description": "why?\nsay", "input": input })).unwrap();
        (revision, id, EndedTurn { bytes, ..EndedTurn::new(&terms, said) })
    }

    fn start(turns: Vec<(u64, ConversationId, EndedTurn)>, compaction: Value, now: &Value) -> ContextStart {
        let compaction = serde_json::from_value(compaction).unwrap();
        ContextStart::new(ContextHead::default(), turns, compaction, Some(now))
    }

    fn ids(start: &ContextStart) -> Vec<&str> {
        start.turns.iter().map(ConversationId::as_str).collect()
    }

    #[test]
    fn turns_come_back_whole_or_as_the_line_that_their_kind_says() {
        let turns = vec![
            ended(1, &input("table", 1, None), "one\nmore of it", 10),
            ended(2, &input("table", 1, Some("b")), "psst", 10),
            ended(3, &input("table", 1, Some("b")), "", 10),
            ended(4, &input("table", 2, None), "two", 10),
            ended(5, &input("table", 3, Some("c")), "hm", 10),
        ];
        let now = input("table", 3, None);
        let all = start(turns.clone(), json!({}), &now);
        assert_eq!((ids(&all).len(), all.summary.as_str()), (5, ""));
        let sides = start(turns.clone(), json!({ "side": "summary", "table": "last 1" }), &now);
        assert_eq!(ids(&sides), ["c-4"]);
        assert_eq!(
            sides.summary,
            "- stage table, round 1: one\n- stage table, round 1, alone with b: psst\n\
             - stage table, round 1, alone with b: nothing was said\n- stage table, round 3, alone with c: hm\n"
        );
        let aside = start(turns, json!({ "side": "summary" }), &input("table", 3, Some("c")));
        assert_eq!(ids(&aside), ["c-1", "c-4", "c-5"], "a side conversation that goes on is whole");
    }

    #[test]
    fn what_is_too_much_is_in_the_summary_and_what_is_long_ago_is_kept_there() {
        let turn = |at: u64| {
            ended(at, &input("table", u32::try_from(at).unwrap(), None), &format!("said {at}"), MAX_BYTES / 4)
        };
        let few = start((1..=6).map(turn).collect(), json!({}), &input("table", 7, None));
        assert_eq!(ids(&few), ["c-3", "c-4", "c-5", "c-6"]);
        assert_eq!(few.summary, "- stage table, round 1: said 1\n- stage table, round 2: said 2\n");
        let listed = u64::try_from(MAX_LISTED).unwrap();
        let last = listed + 472;
        let many = start((1..=last).map(turn).collect(), json!({}), &input("table", 601, None));
        assert_eq!(many.head.after, 472);
        assert!(
            many.summary.starts_with("- ") && many.summary.contains("turns before these\n"),
            "{}",
            many.summary
        );
        let newest_line = format!("said {}\n", last - 4);
        assert!(many.summary.contains("said 472\n") && many.summary.contains(&newest_line));
        assert!(many.summary.len() < MAX_OLD + 64 * MAX_LISTED, "{}", many.summary.len());
        let later = (473..=last + 1).map(turn).collect();
        let later = ContextStart::new(many.head.clone(), later, Compaction::default(), None);
        assert!(later.summary.contains("said 472\n"), "what was kept stays");
        assert_eq!(later.head.after, 473);
    }

    #[test]
    fn what_is_before_a_summary_is_in_it_and_the_turn_that_has_it_stays() {
        let small = |at: u64| ended(at, &Value::Null, &format!("said {at}."), 10);
        let mut turns: Vec<_> = (1..=9).map(small).collect();
        turns[2].2.summary = Some("one to three".into());
        turns[5].2.summary = Some("all before".into());
        let first = start(turns, json!({}), &Value::Null);
        assert_eq!((ids(&first), first.summary.as_str()), (vec!["c-6", "c-7", "c-8", "c-9"], ""));
        let count = u64::try_from(MAX_TURNS).unwrap();
        let more = (7..8 + count).map(small).collect();
        let later = ContextStart::new(first.head.clone(), more, Compaction::default(), None);
        assert_eq!(
            (ids(&later)[0], later.turns.len()),
            ("c-6", MAX_TURNS + 1),
            "it is the first that is given"
        );
        assert_eq!(later.summary, "- asked: why?; answered: said 7.\n");
        let large = ended(7, &Value::Null, "large", MAX_BYTES);
        let large = ContextStart::new(first.head, vec![large], Compaction::default(), None);
        assert_eq!(ids(&large), ["c-6"]);
    }

    #[test]
    fn a_context_is_of_one_seat_of_one_session_of_one_host_and_a_sealed_stage_has_its_own() {
        let spec = |input: Value| -> TaskSpec {
            serde_json::from_value(json!({
                "taskId": "t", "description": "d", "root": "user:local", "input": input
            }))
            .unwrap()
        };
        let host = |id: &str| Principal::Agent(protocol::ids::AgentId::parse(id).unwrap());
        let of = |input: Value, by: &str| name(&spec(input), &host(by));
        let first = of(input("table", 1, None), "host").unwrap();
        assert_eq!(first.len(), 32);
        assert_eq!(of(input("other", 2, None), "host").as_ref(), Some(&first), "whatever the stage is");
        assert_ne!(of(input("table", 1, None), "another").as_ref(), Some(&first));
        let mut sealed = input("table", 1, None);
        sealed["seat"]["sealed"] = json!(true);
        assert_ne!(of(sealed, "host").as_ref(), Some(&first));
        let item = of(input("plan/api", 1, None), "host");
        assert!(item != of(input("plan/page", 1, None), "host") && item != Some(first), "items work at once");
        assert_eq!(of(json!({ "seat": 7 }), "host"), None);
    }

    #[test]
    fn an_a2a_context_is_of_one_user_one_root_and_one_tenant() {
        let of = |by: &str, context: Value| {
            let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [] });
            let mut contact = json!({ "message": message });
            contact.as_object_mut().unwrap().extend(context.as_object().unwrap().clone());
            let spec = json!({ "taskId": "t", "description": "d", "root": by, "contact": contact });
            name(&serde_json::from_value(spec).unwrap(), &by.to_owned().try_into().unwrap())
        };
        let first = of("user:anna", json!({ "contextId": "c" })).unwrap();
        assert_eq!(of("user:anna", json!({ "contextId": "c" })).as_ref(), Some(&first));
        for other in [
            of("user:bob", json!({ "contextId": "c" })),
            of("user:anna", json!({ "contextId": "d" })),
            of("user:anna", json!({ "contextId": "c", "tenant": "t" })),
        ] {
            assert!(other.is_some_and(|other| other != first));
        }
        assert_eq!(of("user:anna", json!({})), None);
        assert_eq!(of("agent:anna", json!({ "contextId": "c" })), None, "its words are data");
    }

    proptest! {
        #[test]
        fn every_turn_is_given_whole_or_has_its_line(
            sizes in proptest::collection::vec((0u64..MAX_BYTES, any::<bool>()), 0..100),
            last in 1u32..20,
        ) {
            let turn = |(at, (bytes, is_side)): (usize, &(u64, bool))| {
                let place = input("table", u32::try_from(at).unwrap(), is_side.then_some("b"));
                ended(at as u64 + 1, &place, &format!("said {at}."), *bytes)
            };
            let turns: Vec<_> = sizes.iter().enumerate().map(turn).collect();
            let now = input("table", 1_000, None);
            let start = start(turns, json!({ "side": format!("last {last}") }), &now);
            for at in 0..sizes.len() {
                let is_whole = start.turns.iter().any(|id| id.as_str() == format!("c-{}", at + 1));
                prop_assert_eq!(is_whole, !start.summary.contains(&format!("said {at}.")), "{}", at);
            }
            let given = start.turns.iter().map(|id| id.as_str()[2..].parse::<usize>().unwrap() - 1);
            prop_assert!(given.map(|at| sizes[at].0).sum::<u64>() <= MAX_BYTES);
        }
    }
}
