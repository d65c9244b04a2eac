//! Content goes when nothing refers to it, and never while something does.

use super::super::{
    Sweeping,
    tests::{HOUR, broom, me},
};
use super::*;
use crate::conversation::record::{Step, TaskRow};
use blackboard::store::{Filter, Key, Pending, Record, Shared, Store, Watch, memory};
use bytes::Bytes;
use proptest::prelude::*;
use protocol::{
    coordination::{Event, What},
    ids::{ConversationId, TaskId},
    limits::Limits,
    principal::Principal,
    task::TaskSpec,
    time::NodeTime,
};
use std::collections::BTreeSet;

fn long(text: &str) -> String {
    text.repeat(2_000)
}

fn digest(text: &str) -> Digest {
    Digest::of(long(text).as_bytes())
}

async fn commit(store: &Shared, writes: Vec<Write>) {
    store.commit(Lane::Progress, Batch { writes, expectations: Vec::new() }).await.unwrap();
}

/// A task's row about `text`, with its content.
fn task(name: &str, text: &str, kept: &mut BTreeSet<Digest>) -> Vec<Write> {
    let (task_id, by) = (TaskId::parse(name).unwrap(), Principal::local_user());
    let spec = TaskSpec {
        task_id: task_id.clone(),
        description: long(text),
        capability: None,
        input: None,
        artifacts: Vec::new(),
        deadline: None,
        accepted_modes: Vec::new(),
        path: Vec::new(),
        parent: None,
        root: by.clone(),
        contact: None,
    };
    let row = TaskRow::new(spec, by.clone(), ConversationId::parse(name).unwrap(), WallTime(0));
    let row = TaskRow { ended_at: Some(NodeTime(0)), ..row };
    let mut writes = Vec::new();
    let bytes = spill::encode(&me(), &row, &mut writes, kept).unwrap();
    writes.push(Write::Put(keys::task(&me(), &task_id, &by), bytes));
    writes
}

fn journal(conversation: &str, text: &str, hours: i64, kept: &mut BTreeSet<Digest>) -> Vec<Write> {
    let what = What::ThoughtFailed { turn: 1, reason: long(text) };
    let event = Event { at: NodeTime(0), wall: WallTime(hours * HOUR), what };
    let step = Step { step: 1, opening: None, events: vec![event], closes: Vec::new(), effects: Vec::new() };
    let mut writes = Vec::new();
    let bytes = spill::encode(&me(), &step, &mut writes, kept).unwrap();
    writes.push(Write::Append(keys::journal(&me(), &ConversationId::parse(conversation).unwrap()), bytes));
    writes
}

fn contents(store: &Shared) -> BTreeSet<Key> {
    let rows = store.read(&keys::all(&me(), "content"), 0, 1_000).unwrap();
    rows.into_iter().map(|record| record.key).collect()
}

fn these(texts: &[&str]) -> BTreeSet<Key> {
    texts.iter().map(|text| keys::content(&me(), &digest(text))).collect()
}

async fn sweep(store: &Shared, hours: i64) {
    broom(store, hours, Limits::default(), Revision::MAX).sweep().await.unwrap();
}

#[tokio::test]
async fn content_goes_with_the_last_record_that_refers_to_it() {
    let store = memory::new();
    let mut kept = BTreeSet::new();
    commit(&store, journal("c1", "a", 0, &mut kept)).await;
    commit(&store, journal("c1", "b", 0, &mut kept)).await;
    commit(&store, task("t1", "b", &mut kept)).await;
    sweep(&store, 1).await;
    assert_eq!(contents(&store), these(&["a", "b"]));
    sweep(&store, 24 * 8).await;
    assert_eq!(contents(&store), these(&["b"]), "its journal is gone, its task is kept");
    sweep(&store, 24 * 15).await;
    assert_eq!(contents(&store), these(&[]));
}

/// A store whose contents nobody may read.
struct Heavy(Shared);

impl Store for Heavy {
    fn commit(&self, lane: Lane, batch: Batch) -> Pending<Vec<Revision>> {
        self.0.commit(lane, batch)
    }

    fn latest(&self, key: &Key) -> Result<Option<Record>, Error> {
        self.0.latest(key)
    }

    fn read(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<Record>, Error> {
        match *filter == keys::all(&me(), "content") {
            true => Err(Error::Refused("a content was read to see whether it may go".to_owned())),
            false => self.0.read(filter, after, limit),
        }
    }

    fn keys(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<(Revision, Key)>, Error> {
        self.0.keys(filter, after, limit)
    }

    fn head(&self) -> Revision {
        self.0.head()
    }

    fn generation(&self) -> String {
        self.0.generation()
    }

    fn watch(&self, filter: Filter, after: Revision) -> Result<Watch, Error> {
        self.0.watch(filter, after)
    }

    fn trim(&self, filter: Filter, before: Revision) -> Pending<u64> {
        self.0.trim(filter, before)
    }
}

#[tokio::test]
async fn no_content_is_read_to_see_whether_it_may_go() {
    let store = memory::new();
    commit(&store, task("t1", "a", &mut BTreeSet::new())).await;
    let heavy: Shared = Arc::new(Heavy(store.clone()));
    sweep(&heavy, 1).await;
    assert_eq!(contents(&store), these(&["a"]));
    sweep(&heavy, 24 * 15).await;
    assert_eq!(contents(&store), these(&[]));
}

#[tokio::test]
async fn who_refers_to_content_anew_wins_the_race_against_its_deletion() {
    let store = memory::new();
    let gone = Write::Delete(keys::task(&me(), &TaskId::parse("t1").unwrap(), &Principal::local_user()));
    commit(&store, task("t1", "a", &mut BTreeSet::new())).await;
    commit(&store, vec![gone]).await;
    let broom = Arc::new(broom(&store, 0, Limits::default(), Revision::MAX));
    let mut round = Round::default();
    broom.look_for_content(&mut round).unwrap();
    assert_eq!(round.stage, Stage::Deleting);
    assert_eq!(round.unreferred.keys().copied().collect::<Vec<_>>(), [digest("a")]);
    commit(&store, task("t2", "a", &mut BTreeSet::new())).await;
    broom.delete_unreferred(&mut round).await.unwrap();
    assert_eq!(contents(&store), these(&["a"]));
}

#[tokio::test]
async fn an_artifact_nothing_refers_to_is_kept_for_its_own_time() {
    let store = memory::new();
    let by = Principal::local_user();
    let put = async |text: &str, hours: i64| {
        let at = WallTime(hours * HOUR);
        artifacts::put(store.as_ref(), &me(), &by, at, None, Bytes::from(long(text))).await.unwrap()
    };
    let limits = |hours: u64| Limits { keep_artifacts_ms: hours * 3_600_000, ..Limits::default() };
    let sweep = async |hours: i64, keep: u64| {
        broom(&store, hours, limits(keep), Revision::MAX).sweep().await.unwrap();
    };
    put("a", 0).await;
    put("b", 5).await;
    put("c", 0).await;
    commit(&store, task("t1", "c", &mut BTreeSet::new())).await;
    sweep(5, 6).await;
    assert_eq!(contents(&store), these(&["a", "b", "c"]));
    sweep(7, 6).await;
    assert_eq!(contents(&store), these(&["b", "c"]));
    let left = store.read(&keys::all(&me(), "artifact"), 0, 10).unwrap().len();
    assert_eq!(left, 2, "what is known of it goes with it");
    put("b", 12).await;
    sweep(13, 6).await;
    assert_eq!(contents(&store), these(&["b", "c"]), "put again, kept again");
}

#[tokio::test]
async fn a_round_is_carried_on_from_sweep_to_sweep_and_begun_again_by_a_restart() {
    let store = memory::new();
    for at in 0..40 {
        let name = format!("t{at}");
        commit(&store, task(&name, &name, &mut BTreeSet::new())).await;
    }
    for at in (0..40).step_by(2) {
        let task = TaskId::parse(&format!("t{at}")).unwrap();
        commit(&store, vec![Write::Delete(keys::task(&me(), &task, &Principal::local_user()))]).await;
    }
    let pace = Pace { window: 10, contents: 4, records: 7, deleted: 3 };
    let slowly =
        || Arc::new(Sweeping { round: Round { pace, ..Round::default() }.into(), ..Sweeping::default() });
    let mut sweeping = slowly();
    let mut sweeps = 0;
    while contents(&store).len() > 20 {
        if sweeps == 9 {
            sweeping = slowly();
        }
        let before = contents(&store).len();
        let broom =
            Broom { sweeping: sweeping.clone(), ..broom(&store, 0, Limits::default(), Revision::MAX) };
        broom.sweep().await.unwrap();
        assert!(before - contents(&store).len() <= pace.deleted, "a sweep's work is bounded");
        sweeps += 1;
        assert!(sweeps < 200, "{} are left", contents(&store).len());
    }
    assert!(sweeps > 10, "{sweeps}");
    let odd: Vec<_> = (1..40).step_by(2).map(|at| format!("t{at}")).collect();
    assert_eq!(contents(&store), these(&odd.iter().map(String::as_str).collect::<Vec<_>>()));
}

#[tokio::test]
async fn a_journal_is_not_trimmed_past_where_the_round_has_read_it() {
    let store = memory::new();
    let mut kept = BTreeSet::new();
    for text in ["x", "y", "z"] {
        commit(&store, journal("c0", text, 0, &mut BTreeSet::new())).await;
    }
    commit(&store, journal("c1", "a", 0, &mut kept)).await;
    let pace = Pace { records: 2, ..Pace::default() };
    let round = Round { pace, ..Round::default() };
    let sweeping = Arc::new(Sweeping { round: round.into(), ..Sweeping::default() });
    let sweep = async |hours| {
        let broom = broom(&store, hours, Limits::default(), Revision::MAX);
        Broom { sweeping: sweeping.clone(), ..broom }.sweep().await.unwrap();
    };
    sweep(0).await;
    for name in ["later-1", "later-2"] {
        commit(&store, task(name, "x", &mut BTreeSet::new())).await;
    }
    let last_word = task("t1", "a", &mut kept);
    assert_eq!(last_word.len(), 1, "its journal has the content already");
    commit(&store, last_word).await;
    for _ in 0..10 {
        sweep(24 * 8).await;
    }
    assert!(store.read(&keys::all(&me(), "journal"), 0, 10).unwrap().is_empty());
    assert_eq!(contents(&store), these(&["a", "x"]));
}

/// What may happen between two sweeps.
#[derive(Debug, Clone)]
enum Op {
    /// A conversation records a text in its journal, and its task's row says another.
    Record {
        conversation: usize,
        journal: usize,
        row: Option<usize>,
    },
    /// It is over, and the next of its place begins.
    End {
        conversation: usize,
    },
    /// A task's row goes.
    Forget {
        conversation: usize,
    },
    /// Time passes: journals become old.
    Hours(i64),
    Sweep,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let (who, text) = (0..3_usize, 0..5_usize);
    let record = (who.clone(), text.clone(), prop::option::of(text))
        .prop_map(|(conversation, journal, row)| Op::Record { conversation, journal, row });
    let op = prop_oneof![
        4 => record,
        2 => who.clone().prop_map(|conversation| Op::End { conversation }),
        1 => who.prop_map(|conversation| Op::Forget { conversation }),
        1 => (1..30_i64).prop_map(Op::Hours),
        8 => Just(Op::Sweep),
    ];
    prop::collection::vec(op, 1..120)
}

#[derive(Default)]
struct Talk {
    kept: BTreeSet<Digest>,
    said: BTreeSet<usize>,
    first: Revision,
    life: usize,
}

async fn play(ops: Vec<Op>) {
    const TEXTS: [&str; 5] = ["a", "b", "c", "d", "e"];
    let store = memory::new();
    let pace = Pace { window: 3, contents: 2, records: 2, deleted: 2 };
    let sweeping =
        Arc::new(Sweeping { round: Round { pace, ..Round::default() }.into(), ..Sweeping::default() });
    let limits =
        Limits { keep_journals_ms: 10 * 3_600_000, keep_tasks_ms: u64::MAX / 4, ..Limits::default() };
    let mut talks: [Talk; 3] = Default::default();
    let mut hours = 0;
    for op in ops {
        match op {
            Op::Record { conversation, journal: text, row } => {
                let talk = &mut talks[conversation];
                let name = format!("c{conversation}-{}", talk.life);
                let mut writes = Vec::new();
                // As a rule does: it can repeat only what its journal has.
                if let Some(row) = row.filter(|row| talk.said.contains(row)) {
                    writes.extend(task(&format!("t{conversation}"), TEXTS[row], &mut talk.kept));
                }
                writes.extend(journal(&name, TEXTS[text], hours, &mut talk.kept));
                talk.said.insert(text);
                commit(&store, writes).await;
                talk.first = if talk.first == 0 { store.head() } else { talk.first };
            }
            Op::End { conversation } => {
                talks[conversation] = Talk { life: talks[conversation].life + 1, ..Talk::default() };
            }
            Op::Forget { conversation } => {
                let task = TaskId::parse(&format!("t{conversation}")).unwrap();
                commit(&store, vec![Write::Delete(keys::task(&me(), &task, &Principal::local_user()))]).await;
            }
            Op::Hours(more) => hours += more,
            Op::Sweep => {
                let open = talks.iter().map(|talk| talk.first).filter(|first| *first > 0).min();
                let broom = broom(&store, hours, limits.clone(), open.unwrap_or(Revision::MAX));
                Broom { sweeping: sweeping.clone(), ..broom }.sweep().await.unwrap();
            }
        }
        for topic in ["journal", "task"] {
            for record in store.read(&keys::all(&me(), topic), 0, 1_000).unwrap() {
                let read: Result<serde_json::Value, _> = spill::decode(&me(), store.as_ref(), &record.value);
                assert!(read.is_ok(), "{}: {read:?}", record.key);
            }
        }
    }
    let rest = Broom {
        sweeping: Arc::default(),
        ..broom(
            &store,
            hours,
            limits,
            talks.iter().map(|talk| talk.first).filter(|first| *first > 0).min().unwrap_or(Revision::MAX),
        )
    };
    rest.sweep().await.unwrap();
    let mut referred = BTreeSet::new();
    for topic in ["journal", "task"] {
        for record in store.read(&keys::all(&me(), topic), 0, 1_000).unwrap() {
            spill::refers_to(&record.value, &mut |digest| {
                referred.insert(keys::content(&me(), &digest));
            });
        }
    }
    assert_eq!(contents(&store), referred, "what is left is what is referred to");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn whatever_happens_between_sweeps_no_record_loses_its_content(ops in ops()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(play(ops));
    }
}
