//! Measurements, run by hand: `cargo test -p blackboard --release --lib measurements -- --ignored --nocapture`.

use super::super::super::{
    Batch, Expectation, Key, Lane, ListEntry, ListOrder, ListQuery, SharedStore, Write,
};
use bytes::Bytes;
use std::time::{Duration, Instant};

const COMMITTERS: usize = 64;
const RUN_TIME: Duration = Duration::from_secs(1);

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Commits per second of 64 concurrent committers; each makes its next batch from its number, turn and last revisions.
fn rate(store: &SharedStore, next: fn(usize, usize, &[u64]) -> Batch) -> f64 {
    let runtime = runtime();
    let started = Instant::now();
    let committers: Vec<_> = (0..COMMITTERS)
        .map(|committer| {
            let store = store.clone();
            runtime.spawn(async move {
                let (mut turn, mut last) = (0, Vec::new());
                while started.elapsed() < RUN_TIME {
                    last = store.commit(Lane::Progress, next(committer, turn, &last)).await.unwrap();
                    turn += 1;
                }
                turn
            })
        })
        .collect();
    let done: usize = runtime.block_on(async {
        let mut done = 0;
        for committer in committers {
            done += committer.await.unwrap();
        }
        done
    });
    done as f64 / started.elapsed().as_secs_f64()
}

/// The usage of this process so far: seconds of CPU, and bytes passed to `write`.
fn usage() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks: f64 = stat.split(' ').skip(13).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let written = io.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok());
    (ticks / 100.0, written.unwrap_or_default())
}

/// The cost per batch since `before`, at `rate` batches a second.
fn cost(rate: f64, before: (f64, f64)) -> String {
    let (cpu, written) = usage();
    let batches = rate * RUN_TIME.as_secs_f64();
    format!(
        "{:>5.1} µs of processor, {:>5.0} bytes each",
        (cpu - before.0) / batches * 1e6,
        (written - before.1) / batches
    )
}

fn conversation(committer: usize, turn: usize) -> String {
    format!("01930c1f-{:04x}-7000-8000-{committer:012x}", turn / 20)
}

fn value(size: usize) -> Bytes {
    Bytes::from(vec![b'x'; size])
}

fn one_row(committer: usize, turn: usize, _: &[u64]) -> Batch {
    let journal = Key::new(&["builder-01", "journal", &conversation(committer, turn)]);
    Batch { writes: vec![Write::Append(journal, value(300))], expectations: vec![] }
}

fn three_rows(committer: usize, turn: usize, last: &[u64]) -> Batch {
    let conversation = conversation(committer, turn);
    let journal = Key::new(&["builder-01", "journal", &conversation]);
    let state = Key::new(&["builder-01", "state", &conversation]);
    let dedup = Key::new(&["builder-01", "dedup", "user:local", &uuid::Uuid::now_v7().to_string()]);
    let expectation = match (turn % 20, last) {
        (1.., [_, at, _]) => Expectation::At(state.clone(), *at),
        _ => Expectation::Absent(state.clone()),
    };
    Batch {
        expectations: vec![expectation, Expectation::Absent(dedup.clone())],
        writes: vec![
            Write::Append(journal, value(300)),
            Write::Put(state, value(600)),
            Write::Put(dedup, value(120)),
        ],
    }
}

/// One group-committed row per request without a store, as the baseline.
fn bare() -> f64 {
    let dir = tempfile::tempdir().unwrap();
    let on = rusqlite::Connection::open(dir.path().join("bare.sqlite")).unwrap();
    on.execute_batch("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE t (id INTEGER PRIMARY KEY, body BLOB)")
        .unwrap();
    let (send, receive) = std::sync::mpsc::channel::<tokio::sync::oneshot::Sender<()>>();
    let writer = std::thread::spawn(move || {
        let mut insert = on.prepare("INSERT INTO t (body) VALUES (?)").unwrap();
        while let Ok(first) = receive.recv() {
            let group: Vec<_> = std::iter::once(first).chain(receive.try_iter()).collect();
            on.execute_batch("BEGIN").unwrap();
            for _ in &group {
                insert.execute([&value(300)[..]]).unwrap();
            }
            on.execute_batch("COMMIT").unwrap();
            group.into_iter().for_each(|done| done.send(()).unwrap());
        }
    });
    let runtime = runtime();
    let started = Instant::now();
    let requests: Vec<_> = (0..COMMITTERS)
        .map(|_| {
            let send = send.clone();
            runtime.spawn(async move {
                let mut turn = 0_usize;
                while started.elapsed() < RUN_TIME {
                    let (done, outcome) = tokio::sync::oneshot::channel();
                    send.send(done).unwrap();
                    outcome.await.unwrap();
                    turn += 1;
                }
                turn
            })
        })
        .collect();
    drop(send);
    let done: usize = requests.into_iter().map(|request| runtime.block_on(request).unwrap()).sum();
    let rate = done as f64 / started.elapsed().as_secs_f64();
    writer.join().unwrap();
    rate
}

#[test]
#[ignore = "prints figures, and takes its time"]
fn measure() {
    for round in 0..2 {
        let before = usage();
        let bare = bare();
        println!("round {round}: bare, one row          {bare:>9.0} batches/s, {}", cost(bare, before));
        for (name, next) in
            [("one row", one_row as fn(usize, usize, &[u64]) -> Batch), ("three rows", three_rows)]
        {
            let (_dir, store) = super::open();
            let before = usage();
            let rate = rate(&store, next);
            println!("round {round}: embedded, {name:<10}   {rate:>9.0} batches/s, {}", cost(rate, before));
        }
    }
    let store = super::super::super::memory::new();
    println!("memory, three rows:   {:>9.0} batches/s", rate(&store, three_rows));
}

#[test]
#[ignore = "prints figures, and takes its time"]
fn measure_latest() {
    let (_dir, store) = super::open();
    let runtime = runtime();
    let name = |n: u32| {
        Key::new(&["builder-01", "dedup", "user:local", &format!("{:08x}", n.wrapping_mul(2_654_435_761))])
    };
    for chunk in 0..200 {
        let writes = (0..1000).map(|n| Write::Put(name(chunk * 1000 + n), value(120))).collect();
        runtime.block_on(store.commit(Lane::Progress, Batch { writes, expectations: vec![] })).unwrap();
    }
    for (what, from) in [("present", 0), ("absent", 1_000_000)] {
        let started = Instant::now();
        for n in 0..50_000 {
            assert_eq!(store.latest(&name(from + n * 3)).unwrap().is_some(), from == 0);
        }
        println!("latest, {what} among 200,000: {:.2} µs", started.elapsed().as_secs_f64() * 1e6 / 50_000.0);
    }
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writer = std::thread::spawn({
        let (store, stop) = (store.clone(), stop.clone());
        move || {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                rate_once(&store);
            }
        }
    });
    let started = Instant::now();
    for n in 0..50_000 {
        store.latest(&name(n * 3)).unwrap();
    }
    println!("latest, present, beside a writer: {:.2} µs", started.elapsed().as_secs_f64() * 1e6 / 50_000.0);
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    writer.join().unwrap();
}

#[test]
#[ignore = "prints figures, and takes its time"]
fn measure_lists() {
    const TASKS: i64 = 229_000;
    let (_dir, store) = super::open();
    let runtime = runtime();
    let list = Key::new(&["builder-01", "task", "of", "user:local"]);
    for chunk in 0..TASKS / 1_000 {
        let put = |n: i64| {
            let at = chunk * 1_000 + n;
            let key = Key::new(&["builder-01", "task", &uuid::Uuid::now_v7().to_string(), "user:local"]);
            let entry = ListEntry { list: list.clone(), part: 4, at, group: at.unsigned_abs() % 1_000 };
            Write::PutListed(key, value(900), vec![entry])
        };
        let writes = (0..1_000).map(put).collect();
        runtime.block_on(store.commit(Lane::Progress, Batch { writes, expectations: vec![] })).unwrap();
    }
    let order = ListOrder::NewestFirst;
    let all = ListQuery { parts: (0..8).collect(), order, ..ListQuery::oldest(list) };
    let middle = store.list(&all, 1_000).unwrap()[999].position;
    for (what, query) in [
        ("the newest", all.clone()),
        ("a later page", ListQuery { after: Some(middle), ..all.clone() }),
        ("of one state", ListQuery { parts: vec![1], ..all.clone() }),
        ("of one group", ListQuery { group: Some(7), ..all.clone() }),
    ] {
        let started = Instant::now();
        let rows = (0..100).map(|_| store.list(&query, 50).unwrap().len()).sum::<usize>() / 100;
        println!("{rows} {what}: {:.0} µs", started.elapsed().as_secs_f64() * 1e4);
        let started = Instant::now();
        let count = store.count(&query).unwrap();
        println!("  count of {count}: {:.2} ms", started.elapsed().as_secs_f64() * 1e3);
    }
}

fn rate_once(store: &SharedStore) {
    let runtime = runtime();
    let commits = (0..COMMITTERS).map(|committer| store.commit(Lane::Progress, one_row(committer, 0, &[])));
    runtime.block_on(futures_util::future::join_all(commits));
}

/// Resident memory, in MiB.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or_default() / 1024.0
}

#[test]
#[ignore = "prints figures, and takes its time"]
fn measure_watchers() {
    let (_dir, store) = super::open();
    let empty = resident();
    let runtime = runtime();
    let (delivered, mut deliveries) = tokio::sync::mpsc::channel(1024);
    for _ in 0..1000 {
        let (mut watch, delivered) =
            (store.watch(super::Filter::Below(Key::stored("board.signal")), 0).unwrap(), delivered.clone());
        runtime.spawn(async move {
            while watch.next().await.is_ok() {
                delivered.send(()).await.unwrap();
            }
        });
    }
    let mut times: Vec<Duration> = (0..200)
        .map(|_| {
            let append = Write::Append(Key::stored("board.signal.x"), value(300));
            runtime.block_on(async {
                let started = Instant::now();
                let batch = Batch { writes: vec![append], expectations: vec![] };
                store.commit(Lane::Progress, batch).await.unwrap();
                for _ in 0..1000 {
                    deliveries.recv().await.unwrap();
                }
                started.elapsed()
            })
        })
        .collect();
    times.sort();
    println!("commit until 1,000 watchers have it: p50 {:?}, p99 {:?}", times[100], times[197]);
    println!("resident: {empty:.1} MiB with an empty store, {:.1} with the watchers", resident());
}
