//! A process that is killed while it writes loses no acknowledged batch and leaves no partial batch.

use super::super::super::{Batch, Expectation, Filter, Lane, Revision, SharedStore, Write};
use super::{StoreOptions, key, reopen, values};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Command, Stdio};

const COMMITTERS: usize = 8;
const DIR_VARIABLE: &str = "MESH_TEST_STORE_TO_CRASH";

/// The next batch of a committer: two log records and one state row, which must have revision `at`.
fn step(committer: usize, turn: u64, at: Revision) -> Batch {
    let (log, state) = (key(&format!("a.log.{committer}")), key(&format!("a.state.{committer}")));
    let value = format!("{turn} {}", "x".repeat(turn as usize % 3000));
    let expectation = match at {
        0 => Expectation::Absent(state.clone()),
        at => Expectation::At(state.clone(), at),
    };
    let mut writes = vec![
        Write::Append(log.clone(), value.clone().into()),
        Write::Put(state, value.clone().into()),
        Write::Append(log, value.into()),
    ];
    if turn.is_multiple_of(5) {
        writes.push(Write::Delete(key("a.state.none")));
    }
    Batch { writes, expectations: vec![expectation] }
}

fn turn_of(value: &str) -> u64 {
    value.split(' ').next().unwrap().parse().unwrap()
}

/// A committer's last turn and the revision of its state row.
fn last_turn(store: &SharedStore, committer: usize) -> (u64, Revision) {
    let latest = store.latest(&key(&format!("a.state.{committer}"))).unwrap();
    latest.map_or((0, 0), |record| (turn_of(&values(std::slice::from_ref(&record))[0]), record.revision))
}

#[tokio::test]
#[ignore = "the process that is killed; run by the other test"]
async fn a_process_that_writes_until_it_is_killed() {
    let Ok(dir) = std::env::var(DIR_VARIABLE) else { return };
    let store = super::super::open(dir.as_ref(), StoreOptions::default()).unwrap();
    let committers = (0..COMMITTERS).map(|committer| {
        let store = store.clone();
        tokio::spawn(async move {
            let (mut turn, mut at) = last_turn(&store, committer);
            loop {
                turn += 1;
                let revisions = store.commit(Lane::Progress, step(committer, turn, at)).await.unwrap();
                at = revisions[1];
                let mut out = std::io::stdout().lock();
                writeln!(out, "ack {committer} {turn} {at}").unwrap();
                out.flush().unwrap();
            }
        })
    });
    futures_util::future::join_all(committers).await;
}

#[test]
fn kill_9_loses_no_acknowledged_batch_and_leaves_no_partial_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = [(0, 0); COMMITTERS];
    for round in 0..6 {
        let after = RandomState::new().build_hasher().finish() % 2000;
        println!("round {round}: killed after {after} acknowledgements");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture"])
            .arg("embedded::tests::crash::a_process_that_writes_until_it_is_killed")
            .env(DIR_VARIABLE, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut seen = 0;
        for line in lines {
            let line = line.unwrap();
            let [committer, turn, at] = line.split(' ').skip(1).collect::<Vec<_>>()[..] else { continue };
            // A line that the kill has cut short reports less than was acknowledged.
            let Ok(committer) = committer.parse::<usize>() else { continue };
            if !line.starts_with("ack") || committer >= COMMITTERS {
                continue;
            }
            acknowledged[committer] = (turn.parse().unwrap(), at.parse().unwrap());
            seen += 1;
            if seen == after + 1 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(seen > after, "the child ended by itself after {seen} acknowledgements");
        check(&reopen(&dir), &acknowledged);
    }
}

fn check(store: &SharedStore, acknowledged: &[(u64, Revision)]) {
    for (committer, (turn, at)) in acknowledged.iter().enumerate() {
        let (last, revision) = last_turn(store, committer);
        assert!(last >= *turn && revision >= *at, "{committer}: at {last}, acknowledged {turn}");
        assert!(store.head() >= revision);
        let (mut turns, mut after) = (Vec::new(), 0);
        loop {
            let page = store.read(&Filter::Exactly(key(&format!("a.log.{committer}"))), after, 1000).unwrap();
            let Some(newest) = page.last() else { break };
            after = newest.revision;
            turns.extend(values(&page).iter().map(|value| turn_of(value)));
        }
        let whole: Vec<u64> = (1..=last).flat_map(|turn| [turn, turn]).collect();
        assert_eq!(turns, whole, "committer {committer}");
    }
}
