//! Claims: exclusivity, leases, and the signals of their ends.

use super::*;
use serde_json::json;

#[actix::test]
async fn a_task_id_belongs_to_its_publisher_and_means_one_task() {
    let board = board();
    let lease = Duration::from_secs(5);
    let offering = |id: &str, from: &str, text: &str| Signal {
        task_id: Some(TaskId::parse("t-1").unwrap()),
        subject: Some(text.to_owned()),
        ..signal(id, "task.available", from)
    };
    board.publish(&agent("planner"), offering("1", "planner", "dig")).await.unwrap();
    board.publish(&agent("other"), offering("1", "other", "fill")).await.unwrap();
    board.publish(&agent("planner"), offering("2", "planner", "dig")).await.expect("the same again");
    let refused = board.publish(&agent("planner"), offering("3", "planner", "sow")).await.unwrap_err();
    assert_eq!((refused.reason, refused.reason.status()), (Reason::TaskIdReused, 409));
    let (by, holder) = (agent("b-1"), AgentId::parse("b-1").unwrap());
    let others = OpenTaskKey { publisher: agent("other"), ..open_task("t-1") };
    let first = board.claim(&by, &open_task("t-1"), &holder, lease).await.unwrap();
    let second = board.claim(&by, &others, &holder, lease).await.expect("another task");
    assert_eq!((first.publisher, second.publisher), (agent("planner"), agent("other")));
    board.complete(&by, &open_task("t-1"), first.epoch).await.unwrap();
    board.publish(&agent("planner"), offering("4", "planner", "dig")).await.expect("it was done");
    let refused = board.publish(&agent("planner"), offering("5", "planner", "sow")).await.unwrap_err();
    assert_eq!(refused.reason, Reason::TaskIdReused, "after its end, too");
    let signals = board.read(&Principal::local_user(), Selector::default(), None, 100).await.unwrap().signals;
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
    offer(&board, &task).await;
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
    let config = BoardConfig { max_claims_per_principal: 100, ..BoardConfig::fast() };
    // Its clock stands still, so that no lease ends while a machine is busy.
    let board = Board::start(memory::new(), config, clock().0).unwrap();
    let lease = Duration::from_secs(5);
    for round in 0..100 {
        let task = open_task(&format!("t-{round}"));
        offer(&board, &task).await;
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
    assert_eq!(board.read(&Principal::local_user(), signals, None, 1_000).await.unwrap().signals.len(), 100);
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
        while board.claim_of(&agent("b-1"), &task).await.unwrap().state != ClaimState::Expired {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let again = Selector {
        types: vec!["task.available".into()],
        capabilities: vec![Capability::parse("rest").unwrap()],
        task_id: Some(task.task_id.clone()),
    };
    let signals = board.read(&Principal::local_user(), again, None, 10).await.unwrap().signals;
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
    assert_eq!(board.read(&Principal::local_user(), of_failure, None, 10).await.unwrap().signals.len(), 1);
}

#[actix::test]
async fn only_what_is_offered_is_claimed() {
    let board = board();
    let (holder, lease) = (AgentId::parse("b-1").unwrap(), Duration::from_secs(5));
    let (by, task) = (agent("b-1"), open_task("t-1"));
    let refused = board.claim(&by, &task, &holder, lease).await.unwrap_err();
    assert_eq!((refused.reason, refused.reason.status()), (Reason::ClaimNotFound, 404));
    assert!(refused.message.contains("no task t-1 of agent:planner is offered"), "{refused}");
    offer(&board, &task).await;
    let claim = board.claim(&by, &task, &holder, lease).await.unwrap();
    board.release(&by, &task, claim.epoch).await.unwrap();
    board.claim(&by, &task, &holder, lease).await.expect("it is offered again");
}

#[actix::test]
async fn a_claim_is_visible_to_the_users_of_its_task_only() {
    let board = board();
    let user = |name: &str| Principal::User(AgentId::parse(name).unwrap());
    let (anna, bert, lease) = (user("anna"), user("bert"), Duration::from_secs(5));
    let (annas, label) =
        (OpenTaskKey { publisher: anna.clone(), ..open_task("t-1") }, AgentId::parse("x").unwrap());
    let missing = OpenTaskKey { task_id: TaskId::parse("t-0").unwrap(), ..annas.clone() };
    offer(&board, &annas).await;
    let text = |problem: Problem| problem.message.replace("t-0", "t-1");
    let unknown = text(board.claim(&bert, &missing, &label, lease).await.unwrap_err());
    assert_eq!(text(board.claim(&bert, &annas, &label, lease).await.unwrap_err()), unknown);
    let claim = board.claim(&agent("b-1"), &annas, &AgentId::parse("b-1").unwrap(), lease).await.unwrap();
    assert_eq!(text(board.claim(&bert, &annas, &label, lease).await.unwrap_err()), unknown);
    let unknown = text(board.claim_of(&bert, &missing).await.unwrap_err());
    for refused in [
        board.claim_of(&bert, &annas).await,
        board.claim_of(&Principal::local_user(), &annas).await,
        board.renew(&bert, &annas, claim.epoch).await,
        board.complete(&bert, &annas, claim.epoch + 1).await,
    ] {
        let refused = refused.unwrap_err();
        assert_eq!((refused.reason, text(refused)), (Reason::ClaimNotFound, unknown.clone()));
    }
    assert_eq!(board.claim_of(&anna, &annas).await.unwrap().by, agent("b-1"));
    let refused = board.complete(&anna, &annas, claim.epoch).await.unwrap_err();
    assert_eq!(refused.reason, Reason::Forbidden, "the publisher is not the holder");
}

#[actix::test]
async fn a_principal_holds_as_many_claims_as_the_limit_or_its_places_allow() {
    let config = BoardConfig { max_claims_per_principal: 2, ..BoardConfig::fast() };
    let board = Board::start(memory::new(), config, BoardClock::system()).unwrap();
    let lease = Duration::from_secs(60);
    let refs = json!({ "incarnation": 1, "maxParallel": 3 }).as_object().unwrap().clone();
    let joined = Signal { subject: Some("b-3".into()), refs, ..signal("j", "agent.joined", "registry") };
    let registry = Principal::of_signer(AgentId::parse("registry").unwrap());
    board.publish(&registry, joined).await.unwrap();
    let tasks: Vec<_> = (0..8).map(|at| open_task(&format!("t-{at}"))).collect();
    for task in &tasks {
        offer(&board, task).await;
    }
    let claim_all = async |by: &Principal, tasks: &[OpenTaskKey]| {
        let holder = AgentId::parse(by.id()).unwrap();
        join_all(tasks.iter().map(|task| board.claim(by, task, &holder, lease))).await
    };
    let (one, three) = (agent("b-1"), agent("b-3"));
    let outcomes = claim_all(&one, &tasks[..4]).await;
    let (granted, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    assert_eq!((granted.len(), refused.len()), (2, 2));
    let refused = refused.into_iter().next().unwrap().unwrap_err();
    assert_eq!((refused.reason, refused.reason.status()), (Reason::RateLimited, 429));
    assert!(
        refused.message.contains("agent:b-1 holds") && refused.message.contains("the limit is 2"),
        "{refused}"
    );
    let granted = claim_all(&three, &tasks[4..]).await.into_iter().filter(Result::is_ok).count();
    assert_eq!(granted, 3, "as many as its card has places");
    let first = board.claim_of(&one, &tasks[0]).await.unwrap();
    board.complete(&one, &tasks[0], first.epoch).await.unwrap();
    assert!(claim_all(&one, &tasks[2..3]).await[0].is_ok(), "a claim that has ended counts no more");
}

#[actix::test]
async fn the_places_that_an_agent_claims_to_have_count_up_to_a_bound() {
    let config = BoardConfig { max_claims_per_principal: 2, ..BoardConfig::fast() };
    let board = Board::start(memory::new(), config, BoardClock::system()).unwrap();
    let refs = json!({ "incarnation": 1, "maxParallel": 1_000_000 }).as_object().unwrap().clone();
    let joined = Signal { subject: Some("b-1".into()), refs, ..signal("j", "agent.joined", "registry") };
    let registry = Principal::of_signer(AgentId::parse("registry").unwrap());
    board.publish(&registry, joined).await.unwrap();
    let (by, holder) = (agent("b-1"), AgentId::parse("b-1").unwrap());
    for at in 0..257 {
        let task = open_task(&format!("t-{at}"));
        offer(&board, &task).await;
        let claim = board.claim(&by, &task, &holder, Duration::from_secs(60)).await;
        assert_eq!(
            claim.map_err(|refused| refused.reason).err(),
            (at == 256).then_some(Reason::RateLimited),
            "{at}"
        );
    }
}

#[actix::test]
async fn a_restart_restarts_every_lease() {
    let (store, (clock, now)) = (memory::new(), clock());
    let holder = AgentId::parse("b-1").unwrap();
    let task = open_task("t-1");
    let board = Board::start(store.clone(), BoardConfig::fast(), clock.clone()).unwrap();
    offer(&board, &task).await;
    let claim = board.claim(&agent("b-1"), &task, &holder, Duration::from_secs(1)).await.unwrap();
    now.store(1_000_000, Ordering::SeqCst);
    let board = Board::start(store, BoardConfig::fast(), clock).unwrap();
    let refused =
        board.claim(&agent("b-2"), &task, &AgentId::parse("b-2").unwrap(), Duration::from_secs(1)).await;
    assert_eq!(refused.unwrap_err().reason, Reason::AlreadyClaimed);
    assert_eq!(board.complete(&agent("b-1"), &task, claim.epoch).await.unwrap().state, ClaimState::Completed);
}
