//! What a sweep deletes and keeps.

use super::{
    state::{ContentSearchStage, PAGE},
    *,
};
use crate::{
    Input, artifacts,
    chunks::{ChunkLog, StepChunks},
    content as large_content,
    records::{ReactionReceipt, Step, TaskRow, Tombstone, keys, lists},
    testing::{EmptyWorld, HOUR, me},
};
use bytes::Bytes;
use patterns::{Event, EventKind, turn::Checkpoint, turn_record::TurnRecord};
use proptest::prelude::*;
use protocol::{
    ids::{ConversationId, Digest, TaskId},
    limits::Limits,
    principal::Principal,
    task::TaskSpec,
    time::{NodeTime, WallTime},
};
use serde_json::json;
use std::collections::{BTreeSet, VecDeque};
use store_types::{Key, MemoryState, Snapshot, Write};

/// The sweeps of an agent.
struct Sweeping {
    retention: Retention,
    limits: Limits,
    conversations: Conversations,
    commits: Commits,
    store: MemoryState,
    world: EmptyWorld,
    outputs: VecDeque<Output>,
}

impl Sweeping {
    fn new(limits: Limits, page: usize) -> Self {
        Self {
            retention: Retention { page, ..Retention::default() },
            limits,
            conversations: Conversations::default(),
            commits: Commits::default(),
            store: MemoryState::default(),
            world: EmptyWorld::default(),
            outputs: VecDeque::new(),
        }
    }

    /// From here on only the journals of these conversations must stay whole.
    fn keep(&mut self, names: impl IntoIterator<Item: AsRef<str>>) {
        self.conversations = Conversations::default();
        names.into_iter().for_each(|name| self.conversations.park(&conversation(name.as_ref()), "a test"));
    }

    fn commit(&mut self, writes: Vec<Write>) -> Revision {
        self.store.commit(Batch { writes, expectations: Vec::new() }).unwrap();
        self.store.revision()
    }

    fn handle(&mut self, input: Input) {
        let (limits, conversations, commits) = (&self.limits, &self.conversations, &mut self.commits);
        let own = &mut RetentionContext { me: &me(), limits, conversations, commits };
        let mut cx = Context { store: &self.store, world: &mut self.world, out: Vec::new() };
        match input {
            Input::Sweep => self.retention.begin_sweep(own, &mut cx),
            Input::Continue => self.retention.continue_sweep(own, &mut cx),
            Input::CommitSettled(id, result) => {
                let Some(PendingCommit::Sweep(part)) = own.commits.settled(id) else { panic!("a sweep") };
                self.retention.sweep_settled(part, result.map(drop), own, &mut cx);
            }
            other => panic!("{other:?}"),
        }
        self.outputs.extend(cx.out);
    }

    /// Does what the agent wants next; whether it wanted anything.
    fn step(&mut self) -> bool {
        let Some(output) = self.outputs.pop_front() else { return false };
        match output {
            Output::Commit(id, _, batch) => {
                let written = self.store.commit(batch);
                let revisions =
                    written.map(|written| written.iter().map(|(revision, _)| *revision).collect());
                self.handle(Input::CommitSettled(id, revisions));
            }
            Output::Continue => self.handle(Input::Continue),
            Output::Observed(_) => {}
            other => panic!("{other:?}"),
        }
        true
    }

    fn sweep(&mut self, hours: i64) {
        self.world.wall = WallTime(hours * HOUR);
        self.handle(Input::Sweep);
        while self.step() {}
    }

    fn left(&self, topic: &str) -> usize {
        self.store.read(&keys::all(&me(), topic), 0, 1_000).unwrap().len()
    }

    /// The conversations with journal records.
    fn journals(&self) -> Vec<String> {
        let rows = self.store.read(&keys::all(&me(), "journal"), 0, 1_000).unwrap();
        let ids: BTreeSet<_> = rows.into_iter().map(|record| record.key.tokens()[2].clone()).collect();
        ids.into_iter().collect()
    }

    fn contents(&self) -> BTreeSet<Key> {
        let rows = self.store.read(&keys::all(&me(), "content"), 0, 1_000).unwrap();
        rows.into_iter().map(|record| record.key).collect()
    }
}

fn long(text: &str) -> String {
    text.repeat(2_000)
}

fn these(texts: &[&str]) -> BTreeSet<Key> {
    texts.iter().map(|text| keys::content(&me(), &Digest::of(long(text).as_bytes()))).collect()
}

fn conversation(name: &str) -> ConversationId {
    ConversationId::parse(name).unwrap()
}

fn line(name: &str, what: EventKind, hours: i64, kept: &mut BTreeSet<Digest>) -> Vec<Write> {
    let event = Event { at: NodeTime(0), wall: WallTime(hours * HOUR), what };
    let (events, closes, effects) = (vec![event], Vec::new(), Vec::new());
    let step = Step { step: 1, events, closes, effects, ..Step::default() };
    let mut writes = Vec::new();
    let bytes = large_content::encode(&me(), &step, &mut writes, kept).unwrap();
    writes.push(Write::Append(keys::journal(&me(), &conversation(name)), bytes));
    writes
}

fn journal(name: &str, hours: i64) -> Vec<Write> {
    line(name, EventKind::Started, hours, &mut BTreeSet::new())
}

/// A line of a journal about `text`, with its content.
fn journal_about(name: &str, text: &str, hours: i64, kept: &mut BTreeSet<Digest>) -> Vec<Write> {
    line(name, EventKind::TurnFailed { turn: 1, reason: long(text) }, hours, kept)
}

fn task_key(name: &str) -> Key {
    keys::task(&me(), &TaskId::parse(name).unwrap(), &Principal::local_user())
}

/// A task's row about `text`, with its content.
fn task(name: &str, text: &str, kept: &mut BTreeSet<Digest>) -> Vec<Write> {
    let spec = json!({ "taskId": name, "description": long(text), "root": "user:local" });
    let spec: TaskSpec = serde_json::from_value(spec).unwrap();
    let row = TaskRow::new(spec, Principal::local_user(), conversation(name), WallTime(0));
    let row = TaskRow { ended_at: Some(NodeTime(0)), ..row };
    let mut writes = Vec::new();
    let bytes = large_content::encode(&me(), &row, &mut writes, kept).unwrap();
    let entries = lists::of_task(&me(), &task_key(name), &row);
    writes.push(Write::PutListed(task_key(name), bytes, entries));
    writes
}

fn pages() -> [usize; 3] {
    [1, 2, PAGE]
}

#[test]
fn journals_are_deleted_by_age_and_by_size_the_oldest_first() {
    for page in pages() {
        let by_age = Limits { keep_journals_ms: 24 * 3_600_000, ..Limits::default() };
        let mut sweeping = Sweeping::new(by_age, page);
        for (name, hours) in [("c1", 0), ("c2", 1), ("c3", 2), ("c4", 300)] {
            sweeping.commit(journal(name, hours));
        }
        sweeping.sweep(25);
        assert_eq!(sweeping.left("journal"), 2, "{page}");
        sweeping.sweep(300);
        assert_eq!(sweeping.left("journal"), 1, "{page}");

        let mut sweeping = Sweeping::new(Limits::default(), page);
        for at in 0..10 {
            sweeping.commit(journal(&format!("c{at}"), 0));
        }
        let one = sweeping.store.read(&keys::all(&me(), "journal"), 0, 1).unwrap()[0].value.len() as u64;
        let limits = Limits { keep_journal_bytes: 4 * one, ..Limits::default() };
        sweeping.limits = limits;
        sweeping.sweep(0);
        assert_eq!(sweeping.left("journal"), 4, "{page}");
        assert_eq!(sweeping.retention.removed().journal_lines, 6, "{page}");
    }
}

#[test]
fn an_open_or_parked_conversation_keeps_only_its_own_journal() {
    for page in pages() {
        let limits = Limits { keep_journals_ms: 24 * 3_600_000, ..Limits::default() };
        let mut sweeping = Sweeping::new(limits, page);
        for (name, hours) in [("c1", 0), ("c2", 1), ("open", 1), ("c1", 2), ("parked", 2), ("c3", 3)] {
            sweeping.commit(journal(name, hours));
        }
        sweeping.keep(["open", "parked"]);
        sweeping.sweep(300);
        assert_eq!(sweeping.journals(), ["open", "parked"], "{page}");
        sweeping.commit(journal("open", 299));
        sweeping.keep(["parked"]);
        sweeping.sweep(300);
        assert_eq!(sweeping.journals(), ["open", "parked"], "its last record is young: {page}");
        assert_eq!(sweeping.left("journal"), 2, "{page}");
        assert_eq!(sweeping.retention.removed().journal_lines, 5, "{page}");
    }
}

#[test]
fn one_sweep_deletes_all_that_is_due() {
    let mut sweeping = Sweeping::new(Limits::default(), PAGE);
    for n in 0..12_000 {
        let key = Key::new(&[me().as_str(), "receipt", &n.to_string()]);
        let entry = lists::aged(&key, WallTime(n));
        sweeping.commit(vec![Write::PutListed(key, "{}".into(), vec![entry])]);
        sweeping.commit(journal(&format!("c{n}"), 0));
    }
    sweeping.sweep(24 * 8);
    assert_eq!((sweeping.left("receipt"), sweeping.left("journal")), (0, 0));
}

#[test]
fn reaction_receipts_are_deleted_with_the_journals_and_tombstones_after_the_dedup_time() {
    for page in pages() {
        let limits = Limits { keep_journals_ms: 24 * 3_600_000, ..Limits::default() };
        let mut sweeping = Sweeping::new(limits, page);
        for (name, hours) in [("c1", 0), ("c2", 20)] {
            let id = conversation(name);
            let at = WallTime(hours * HOUR);
            let reaction = ReactionReceipt { by: None, conversation_id: id.clone(), at };
            let tombstone = serde_json::to_vec(&Tombstone { epoch: 1, at }).unwrap();
            let task = TaskId::parse(name).unwrap();
            let put = |key: Key, bytes: Vec<u8>| {
                let entry = lists::aged(&key, at);
                Write::PutListed(key, bytes.into(), vec![entry])
            };
            sweeping.commit(vec![
                put(keys::reaction(&me(), 7, Some(8), &id), serde_json::to_vec(&reaction).unwrap()),
                put(keys::tombstone(&me(), &task, &Principal::Agent(me())), tombstone),
            ]);
        }
        for (hours, left) in [(23, (2, 2)), (24, (1, 2)), (26, (1, 1)), (50, (0, 0))] {
            sweeping.sweep(hours);
            assert_eq!((sweeping.left("reaction"), sweeping.left("tombstone")), left, "{hours} {page}");
        }
    }
}

#[test]
fn checkpoints_without_a_task_are_deleted_with_the_last_line_of_their_journal() {
    for page in pages() {
        let limits = Limits { keep_journals_ms: 24 * 3_600_000, ..Limits::default() };
        let mut sweeping = Sweeping::new(limits, page);
        let log = ChunkLog::of_conversation(&me(), &conversation("c1"));
        let data = json!("half of it");
        let record = TurnRecord::Checkpoint(Checkpoint { data, replace: false, summary: None });
        let mut writes = [journal("c1", 0), journal("c1", 20)].concat();
        for number in 0..3 {
            StepChunks::default().record_of_turn(&log, number, &record, &mut writes).unwrap();
        }
        sweeping.commit(writes);
        for (hours, left) in [(23, 3), (24, 3), (44, 0)] {
            sweeping.sweep(hours);
            assert_eq!(sweeping.left("chunk"), left, "{hours} {page}");
        }
    }
}

#[test]
fn content_is_deleted_with_the_last_record_that_refers_to_it() {
    for page in pages() {
        let mut sweeping = Sweeping::new(Limits::default(), page);
        let mut kept = BTreeSet::new();
        let writes = journal_about("c1", "a", 0, &mut kept);
        sweeping.commit(writes);
        let writes = journal_about("c1", "b", 0, &mut kept);
        sweeping.commit(writes);
        let writes = task("t1", "b", &mut kept);
        sweeping.commit(writes);
        for (hours, left) in [(1, &["a", "b"][..]), (24 * 8, &["b"]), (24 * 15, &[])] {
            sweeping.sweep(hours);
            sweeping.sweep(hours);
            assert_eq!(sweeping.contents(), these(left), "{hours} {page}");
        }
    }
}

#[test]
fn references_are_not_read_from_a_view_older_than_the_list() {
    let mut sweeping = Sweeping::new(Limits::default(), PAGE);
    let older = sweeping.store.clone();
    sweeping.commit(journal_about("c1", "a", 0, &mut BTreeSet::new()));
    sweeping.handle(Input::Sweep);
    while !matches!(sweeping.retention.search.stage, ContentSearchStage::Reading { .. }) {
        assert!(sweeping.step());
    }
    let newer = std::mem::replace(&mut sweeping.store, older);
    for _ in 0..2 * keys::REFERRING.len() {
        if sweeping.retention.search.stage != ContentSearchStage::Deleting {
            sweeping.step();
        }
    }
    sweeping.store = newer;
    while sweeping.step() {}
    assert_eq!(sweeping.contents(), these(&["a"]));
}

#[test]
fn a_task_that_begins_again_during_the_sweep_is_kept() {
    let mut sweeping = Sweeping::new(Limits::default(), PAGE);
    sweeping.commit(task("t1", "a", &mut BTreeSet::new()));
    sweeping.world.wall = WallTime(24 * 15 * HOUR);
    sweeping.handle(Input::Sweep);
    while !matches!(sweeping.outputs.front(), Some(Output::Commit(..))) {
        assert!(sweeping.step());
    }
    sweeping.commit(task("t1", "b", &mut BTreeSet::new()));
    while sweeping.step() {}
    assert_eq!(sweeping.left("task"), 1);
}

#[test]
fn an_unreferenced_artifact_is_kept_for_its_retention_time() {
    let mut sweeping = Sweeping::new(Limits { keep_artifacts_ms: 6 * 3_600_000, ..Limits::default() }, PAGE);
    let put = |sweeping: &mut Sweeping, text: &str, hours: i64| {
        let (by, at) = (Principal::local_user(), WallTime(hours * HOUR));
        let content = artifacts::UploadedContent::Here(Bytes::from(long(text)));
        let put = artifacts::put(&sweeping.store, &me(), &by, at, None, content);
        sweeping.store.commit(put.unwrap().1).unwrap();
    };
    put(&mut sweeping, "a", 0);
    put(&mut sweeping, "b", 5);
    put(&mut sweeping, "c", 0);
    sweeping.commit(task("t1", "c", &mut BTreeSet::new()));
    sweeping.sweep(5);
    assert_eq!(sweeping.contents(), these(&["a", "b", "c"]));
    sweeping.sweep(12);
    assert_eq!(sweeping.contents(), these(&["c"]));
    assert_eq!(sweeping.left("artifact"), 1, "what is known of it goes with it");
}

/// What may happen between two steps of a sweep.
#[derive(Debug, Clone)]
enum Op {
    /// A conversation records a text in its journal, and its task's row says another.
    Record { conversation: usize, journal: usize, row: Option<usize> },
    /// It ends, and another takes its place.
    End { conversation: usize },
    /// A task's row is deleted.
    Delete { conversation: usize },
    /// Time passes: journals become old.
    Hours(i64),
    /// A sweep begins, if none is under way.
    Sweep,
    /// The sweep goes on.
    Step,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let (who, text) = (0..3_usize, 0..5_usize);
    let record = (who.clone(), text.clone(), prop::option::of(text))
        .prop_map(|(conversation, journal, row)| Op::Record { conversation, journal, row });
    let op = prop_oneof![
        4 => record,
        2 => who.clone().prop_map(|conversation| Op::End { conversation }),
        1 => who.prop_map(|conversation| Op::Delete { conversation }),
        1 => (1..30_i64).prop_map(Op::Hours),
        2 => Just(Op::Sweep),
        16 => Just(Op::Step),
    ];
    prop::collection::vec(op, 1..300)
}

#[derive(Default)]
struct OpenConversation {
    kept: BTreeSet<Digest>,
    recorded: BTreeSet<usize>,
    life: usize,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn referenced_content_survives_a_sweep_under_any_concurrent_changes(ops in ops(), page in 1_usize..4) {
        const TEXTS: [&str; 5] = ["a", "b", "c", "d", "e"];
        let limits =
            Limits { keep_journals_ms: 10 * 3_600_000, keep_tasks_ms: u64::MAX / 4, ..Limits::default() };
        let mut sweeping = Sweeping::new(limits, page);
        let mut open: [OpenConversation; 3] = Default::default();
        let mut hours = 0;
        for op in ops {
            match op {
                Op::Record { conversation: at, journal: text, row } => {
                    let name = format!("c{at}-{}", open[at].life);
                    let mut writes = Vec::new();
                    // As a pattern does: it can repeat only what its journal has.
                    if let Some(row) = row.filter(|row| open[at].recorded.contains(row)) {
                        writes.extend(task(&format!("t{at}"), TEXTS[row], &mut open[at].kept));
                    }
                    writes.extend(journal_about(&name, TEXTS[text], hours, &mut open[at].kept));
                    open[at].recorded.insert(text);
                    sweeping.commit(writes);
                }
                Op::End { conversation } => {
                    open[conversation] = OpenConversation { life: open[conversation].life + 1, ..Default::default() };
                }
                Op::Delete { conversation } => {
                    sweeping.commit(vec![Write::Delete(task_key(&format!("t{conversation}")))]);
                }
                Op::Hours(more) => hours += more,
                Op::Sweep => {
                    sweeping.world.wall = WallTime(hours * HOUR);
                    sweeping.handle(Input::Sweep);
                }
                Op::Step => drop(sweeping.step()),
            }
            // Journals of open conversations are kept, as the agent keeps those it has in memory.
            let names = open.iter().enumerate().map(|(at, open)| format!("c{at}-{}", open.life));
            sweeping.keep(names);
            let mut referred = BTreeSet::new();
            for topic in keys::REFERRING {
                for record in sweeping.store.read(&keys::all(&me(), topic), 0, 1_000).unwrap() {
                    large_content::refers_to(&record.value, &mut |digest| {
                        referred.insert(keys::content(&me(), &digest));
                    });
                }
            }
            let contents = sweeping.contents();
            prop_assert!(referred.is_subset(&contents), "{:?} are gone", referred.difference(&contents));
        }
    }
}
