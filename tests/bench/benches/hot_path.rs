//! The parts of the hot path, one by one: `cargo bench -p bench`.

#![expect(clippy::unwrap_used, reason = "a benchmark that can't set up has nothing to measure")]

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use patterns::{
    AnyPattern, Candidate, Event, EventKind,
    contract_net::{Auction, ContractNet},
    ownership::TaskOwnership,
};
use protocol::{
    a2a::card_signature::SigningKey,
    card::Card,
    envelope::Envelope,
    identity::IdentityKey,
    ids::{AgentId, Capability, Digest, MessageId},
    json,
    principal::Principal,
    problem::{Problem, Reason},
    signature::{PresentedSignature, Secret, SignatureClaim, SignatureHeaders, SignedParts, verify_request},
    task::TaskSpec,
    time::{NodeTime, WallTime},
};
use serde_json::{Value, json};
use std::{hint::black_box, sync::Arc, time::Duration};
use store::{Batch, Key, Lane, SharedStore, Write, embedded, memory};
use transport::key_ring::KeyRing;

fn id(text: &str) -> AgentId {
    AgentId::parse(text).unwrap()
}

fn update() -> Value {
    json!({
        "messageId": "update-000000001", "fromAgentId": "planner-01", "toAgentId": "builder-01",
        "type": "task-update", "timestamp": "2026-11-21T08:00:00Z", "conversationId": "c-1",
        "payload": {
            "taskId": "t-1", "seq": 1, "status": { "state": "TASK_STATE_WORKING", "message": "half way there" },
        },
    })
}

fn parse(text: &[u8]) -> Box<Envelope> {
    let body = json::parse(text, json::MAX_DEPTH).unwrap();
    Box::new(Envelope::from_json(body, || MessageId::parse("minted").unwrap()).unwrap())
}

fn envelope(criterion: &mut Criterion) {
    let text = update().to_string().into_bytes();
    let parsed = parse(&text);
    let mut group = criterion.benchmark_group("envelope");
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("parse", |bencher| bencher.iter(|| parse(black_box(&text))));
    group.bench_function("write", |bencher| bencher.iter(|| serde_json::to_vec(black_box(&parsed)).unwrap()));
    group.finish();
}

fn auction(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("auction");
    group.sample_size(20);
    for candidates in [10, 1_000] {
        let called = called(candidates);
        let bids: Vec<_> = (0..candidates).map(bid).collect();
        group.bench_with_input(BenchmarkId::new("score", candidates), &bids, |bencher, bids| {
            let bid_all = |mut net: AnyPattern| bids.iter().flat_map(|bid| net.on(bid)).count();
            bencher.iter_batched(|| called.clone(), bid_all, BatchSize::LargeInput);
        });
    }
    group.finish();
}

/// An auction that has asked so many.
fn called(candidates: usize) -> AnyPattern {
    let spec: TaskSpec = serde_json::from_value(json!({
        "taskId": "t-1", "description": "do it", "capability": "build", "root": "user:local",
    }))
    .unwrap();
    let candidate = |number: usize| {
        let card: Card = serde_json::from_value(json!({
            "agentId": name(number), "endpoint": "http://127.0.0.1:1", "skills": [{ "id": "build" }],
        }))
        .unwrap();
        Candidate { track_record: 0.5, ..Candidate::new(&card, &Capability::parse("build").unwrap()) }
    };
    let auction = Auction { fanout: candidates, ..Auction::default() };
    let candidates = (0..candidates).map(candidate).collect();
    let ownership = TaskOwnership::new(spec, None);
    let mut net = AnyPattern::from(ContractNet::new(id("planner-01"), ownership, auction, candidates));
    net.on(&event(EventKind::Started));
    net
}

fn name(number: usize) -> String {
    format!("builder-{number:04}")
}

fn event(what: EventKind) -> Event {
    Event { at: NodeTime(1), wall: WallTime(1), what }
}

fn bid(number: usize) -> Event {
    let body = json!({
        "fromAgentId": name(number), "toAgentId": "planner-01", "type": "bid",
        "payload": { "taskId": "t-1", "cost": 0.01 * (number % 7) as f64, "eta": 60_000 + 100 * number },
    });
    let envelope = Envelope::from_json(body, || MessageId::parse("bid").unwrap()).unwrap();
    let by = Principal::Agent(id(&name(number)));
    event(EventKind::MessageReceived { by, answers: None, envelope: Box::new(envelope) })
}

fn signature(criterion: &mut Criterion) {
    let secret = Secret::new(&[7; 32]).unwrap();
    let key = |name: &str| IdentityKey::new(id(name), Arc::new(SigningKey::from_seed(&[7; 32])));
    let ring = |own: &str, peer: &str| {
        let keys = KeyRing::new(secret.clone(), None);
        keys.set_own(key(own));
        keys.set_pinned(key(peer).public().clone(), 1);
        keys
    };
    let (sender, recipient) = (ring("planner-01", "builder-01"), ring("builder-01", "planner-01"));
    let me = id("planner-01");
    let body = update().to_string();
    let parts = SignedParts {
        method: "POST",
        path_and_query: "/a2a/messages",
        recipient: "builder-01",
        message_id: Some("update-000000001"),
        digest: Digest::of(body.as_bytes()),
    };
    let (shared, pair) =
        (secret.sign_request(&me, &parts, 1_000, None), sender.sign_request(&me, &parts, 1_000).unwrap());
    let presented = |signed: &'static SignatureHeaders| PresentedSignature {
        content_digest: Some(&signed.content_digest),
        signature_input: Some(&signed.signature_input),
        signature: Some(&signed.signature),
    };
    let (shared, pair) = (presented(Box::leak(Box::new(shared))), presented(Box::leak(Box::new(pair))));
    let mut group = criterion.benchmark_group("signature");
    // One secret for all, which is the floor, and the key of a pair.
    group.bench_function("sign, one secret", |bencher| {
        bencher.iter(|| secret.sign_request(&me, black_box(&parts), 1_000, None));
    });
    group.bench_function("sign, pair key", |bencher| {
        bencher.iter(|| sender.sign_request(&me, black_box(&parts), 1_000).unwrap());
    });
    let under_secret = |claim: &SignatureClaim| match claim.is_signed_by(&secret) {
        true => Ok(()),
        false => Err(Problem::new(Reason::Unauthenticated, "wrong")),
    };
    group.bench_function("verify, one secret", |bencher| {
        bencher.iter(|| verify_request(black_box(&parts), &shared, 1_000, under_secret).unwrap());
    });
    group.bench_function("verify, pair key", |bencher| {
        bencher.iter(|| recipient.verify_request(black_box(&parts), &pair, 1_000).unwrap());
    });
    group.finish();
}

fn commit(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let stores = [
        ("memory", memory::new()),
        ("embedded", embedded::open(dir.path(), embedded::StoreOptions::default()).unwrap()),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut group = criterion.benchmark_group("commit");
    group.measurement_time(Duration::from_secs(2)).sample_size(20);
    for (name, store) in &stores {
        for at_once in [1, 64] {
            group.throughput(Throughput::Elements(at_once));
            group.bench_with_input(BenchmarkId::new(*name, at_once), &at_once, |bencher, at_once| {
                bencher.iter(|| {
                    let commits: Vec<_> = (0..*at_once).map(|number| step(store, number)).collect();
                    runtime.block_on(futures_util::future::try_join_all(commits)).unwrap()
                });
            });
        }
    }
    group.finish();
}

/// A step as an agent commits it: a receipt and a journal record.
fn step(store: &SharedStore, number: u64) -> store::StoreFuture<Vec<u64>> {
    let value = bytes::Bytes::from_static(&[b'x'; 300]);
    let receipt = Key::new(&["builder-01", "receipt", &uuid::Uuid::now_v7().to_string()]);
    let journal = Key::new(&["builder-01", "journal", &number.to_string()]);
    let writes = vec![Write::Put(receipt, value.clone()), Write::Append(journal, value)];
    store.commit(Lane::Progress, Batch { writes, expectations: Vec::new() })
}

criterion_group!(benches, envelope, auction, signature, commit);
criterion_main!(benches);
