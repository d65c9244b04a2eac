//! Claims: exclusivity, leases, and the signals of their ends.

use super::*;

#[actix::test]
async fn a_task_id_belongs_to_its_publisher_and_means_one_task() {
    let board = board();
    let lease = Duration::from_secs(5);
    let offer = |id: &str, from: &str, text: &str| Signal {
        task_id: Some(TaskId::parse("t-1").unwrap()),
        subject: Some(text.to_owned()),
        ..signal(id, "task.available", from)
    };
    board.publish(&agent("planner"), offer("1", "planner", "dig")).await.unwrap();
    board.publish(&agent("other"), offer("1", "other", "fill")).await.unwrap();
    board.publish(&agent("planner"), offer("2", "planner", "dig")).await.expect("the same again");
    let refused = board.publish(&agent("planner"), offer("3", "planner", "sow")).await.unwrap_err();
    assert_eq!((refused.reason, refused.reason.status()), (Reason::TaskIdReused, 409));
    let (by, holder) = (agent("b-1"), AgentId::parse("b-1").unwrap());
    let others = OpenTaskKey { publisher: agent("other"), ..open_task("t-1") };
    let first = board.claim(&by, &open_task("t-1"), &holder, lease).await.unwrap();
    let second = board.claim(&by, &others, &holder, lease).await.expect("another task");
    assert_eq!((first.publisher, second.publisher), (agent("planner"), agent("other")));
    board.complete(&by, &open_task("t-1"), first.epoch).await.unwrap();
    board.publish(&agent("planner"), offer("4", "planner", "dig")).await.expect("it was done");
    let refused = board.publish(&agent("planner"), offer("5", "planner", "sow")).await.unwrap_err();
    assert_eq!(refused.reason, Reason::TaskIdReused, "after its end, too");
    let signals = board.read(Selector::default(), None, 100).await.unwrap().signals;
    let of = signals.iter().map(|posted| {
        let publisher = protocol::signal::publisher(&posted.signal).unwrap().to_string();
        (posted.signal.kind.as_str().to_owned(), publisher)
    });
    let (planner, other) = ("agent:planner", "agent:other");
    let all = [
        ("task.available", planner),
        ("task.available", other),
        ("task.available", planner),
        ("task.claimed", planner),
        ("task.claimed", other),
        ("task.complete", planner),
        ("task.available", planner),
    ];
    let all = all.map(|(kind, publisher)| (kind.to_owned(), publisher.to_owned()));
    assert_eq!(of.collect::<Vec<_>>(), all);
}

#[actix::test]
async fn a_renewal_during_a_take_by_another_is_fenced() {
    let (clock, now) = clock();
    let config = BoardConfig { sweep_ms: 3_600_000, ..BoardConfig::fast() };
    let board = Board::start(memory::new(), config, clock).unwrap();
    let (one, two) = (AgentId::parse("b-1").unwrap(), AgentId::parse("b-2").unwrap());
    let (task, lease) = (open_task("t-1"), Duration::from_secs(1));
    let first = board.claim(&agent("b-1"), &task, &one, lease).await.unwrap();
    now.store(10_000, Ordering::SeqCst);
    let (by_two, by_one) = (agent("b-2"), agent("b-1"));
    let (taken, renewed) = futures_util::future::join(
        board.claim(&by_two, &task, &two, lease),
        board.renew(&by_one, &task, first.epoch),
    )
    .await;
    assert!(taken.unwrap().epoch > first.epoch);
    assert_eq!(renewed.unwrap_err().reason, Reason::Fenced);
}

#[actix::test]
async fn of_64_concurrent_claims_exactly_one_wins() {
    let board = board();
    let lease = Duration::from_secs(5);
    for round in 0..100 {
        let task = open_task(&format!("t-{round}"));
        let outcomes = join_all((0..64).map(|at| {
            let (board, task) = (board.clone(), task.clone());
            async move {
                let holder = AgentId::parse(&format!("b-{at}")).unwrap();
                board.claim(&Principal::Agent(holder.clone()), &task, &holder, lease).await
            }
        }))
        .await;
        let winners: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok()).collect();
        let [winner] = winners.as_slice() else { panic!("round {round}: {} winners", winners.len()) };
        for loser in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
            assert_eq!(loser.reason, Reason::AlreadyClaimed);
            assert!(loser.metadata.contains(&("holder", winner.holder.to_string())));
        }
    }
    let signals = Selector { types: vec!["task.claimed".into()], ..Selector::default() };
    assert_eq!(board.read(signals, None, 1_000).await.unwrap().signals.len(), 100);
}

#[actix::test]
async fn an_expired_lease_is_announced_and_the_next_claim_has_a_greater_epoch() {
    let (clock, now) = clock();
    let board = Board::start(memory::new(), BoardConfig::fast(), clock).unwrap();
    let (one, two) = (AgentId::parse("b-1").unwrap(), AgentId::parse("b-2").unwrap());
    let task = open_task("t-1");
    let lease = Duration::from_millis(1_000);
    let open = Signal {
        task_id: Some(task.task_id.clone()),
        capability: Some(Capability::parse("rest").unwrap()),
        ..signal("offer", "task.available", "planner")
    };
    board.publish(&agent("planner"), open).await.unwrap();
    let first = board.claim(&agent("b-1"), &task, &one, lease).await.unwrap();
    now.store(900, Ordering::SeqCst);
    board.renew(&agent("b-1"), &task, first.epoch).await.unwrap();
    now.store(1_900, Ordering::SeqCst);
    let refused = board.claim(&agent("b-2"), &task, &two, lease).await.unwrap_err();
    assert_eq!(refused.reason, Reason::AlreadyClaimed, "within the grace: {refused}");
    now.store(1_951, Ordering::SeqCst);
    within("the expiry shows", async {
        while board.claim_of(&task).await.unwrap().state != ClaimState::Expired {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let again = Selector {
        types: vec!["task.available".into()],
        capabilities: vec![Capability::parse("rest").unwrap()],
        task_id: Some(task.task_id.clone()),
    };
    let signals = board.read(again, None, 10).await.unwrap().signals;
    assert_eq!(signals.len(), 2);
    assert_eq!(
        (signals[1].signal.from.as_str(), &signals[1].signal.refs["formerHolder"]),
        (access::BOARD, &"b-1".into())
    );
    assert_eq!(signals[1].signal.refs[protocol::signal::PUBLISHER], "agent:planner");
    let second = board.claim(&agent("b-2"), &task, &two, lease).await.unwrap();
    assert!(second.epoch > first.epoch);
    for late in [
        board.renew(&agent("b-1"), &task, first.epoch).await,
        board.complete(&agent("b-1"), &task, first.epoch).await,
    ] {
        assert_eq!(late.unwrap_err().reason, Reason::Fenced);
    }
    assert_eq!(board.snapshot().await.unwrap().counts.expired, 1);
    let failed = board.fail(&agent("b-2"), &task, second.epoch).await.unwrap();
    assert_eq!(failed.state, ClaimState::Failed);
    assert_eq!(board.fail(&agent("b-2"), &task, second.epoch).await.unwrap().revision, failed.revision);
    let late = board.complete(&agent("b-2"), &task, second.epoch).await.unwrap_err();
    assert_eq!(late.reason, Reason::Fenced);
    let third = board.claim(&agent("b-1"), &task, &one, lease).await.unwrap_err();
    assert_eq!(third.reason, Reason::AlreadyClaimed);
    let of_failure = Selector { types: vec!["task.failed".into()], ..Selector::default() };
    assert_eq!(board.read(of_failure, None, 10).await.unwrap().signals.len(), 1);
}

#[actix::test]
async fn the_end_of_a_claim_offers_no_task_that_was_not_offered_before() {
    let (clock, now) = clock();
    let board = Board::start(memory::new(), BoardConfig::fast(), clock).unwrap();
    let holder = AgentId::parse("b-1").unwrap();
    let lease = Duration::from_millis(1_000);
    let [lapses, released, done] = ["t-1", "t-2", "t-3"].map(open_task);
    board.claim(&agent("b-1"), &lapses, &holder, lease).await.unwrap();
    let claim = board.claim(&agent("b-1"), &released, &holder, lease).await.unwrap();
    assert_eq!(
        board.release(&agent("b-1"), &released, claim.epoch).await.unwrap().state,
        ClaimState::Released
    );
    let claim = board.claim(&agent("b-1"), &done, &holder, lease).await.unwrap();
    board.complete(&agent("b-1"), &done, claim.epoch).await.unwrap();
    now.store(1_951, Ordering::SeqCst);
    within("the expiry shows", async {
        while board.claim_of(&lapses).await.unwrap().state != ClaimState::Expired {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let signals = board.read(Selector::default(), None, 10).await.unwrap().signals;
    let signals: Vec<_> =
        signals.iter().map(|posted| (posted.signal.kind.as_str(), posted.signal.task_id.clone())).collect();
    let claimed = [&lapses, &released, &done].map(|task| ("task.claimed", Some(task.task_id.clone())));
    assert_eq!(signals, [&claimed[..], &[("task.complete", Some(done.task_id))]].concat());
    let next = AgentId::parse("b-2").unwrap();
    board.claim(&agent("b-2"), &lapses, &next, lease).await.expect("it is free");
}

#[actix::test]
async fn a_restart_restarts_every_lease() {
    let (store, (clock, now)) = (memory::new(), clock());
    let holder = AgentId::parse("b-1").unwrap();
    let task = open_task("t-1");
    let board = Board::start(store.clone(), BoardConfig::fast(), clock.clone()).unwrap();
    let claim = board.claim(&agent("b-1"), &task, &holder, Duration::from_secs(1)).await.unwrap();
    now.store(1_000_000, Ordering::SeqCst);
    let board = Board::start(store, BoardConfig::fast(), clock).unwrap();
    let refused =
        board.claim(&agent("b-2"), &task, &AgentId::parse("b-2").unwrap(), Duration::from_secs(1)).await;
    assert_eq!(refused.unwrap_err().reason, Reason::AlreadyClaimed);
    assert_eq!(board.complete(&agent("b-1"), &task, claim.epoch).await.unwrap().state, ClaimState::Completed);
}
