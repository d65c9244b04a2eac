//! What quotas count, when they close, and what is asked of the board.

use super::*;

fn quotas(own: serde_json::Value, of_mesh: serde_json::Value) -> Quotas {
    let read = |quotas| serde_json::from_value::<Vec<Quota>>(quotas).unwrap();
    Quotas::new(&read(own), &read(of_mesh))
}

fn at(text: &str) -> WallTime {
    WallTime::parse(text).unwrap()
}

fn user(name: &str) -> Principal {
    Principal::try_from(format!("user:{name}")).unwrap()
}

fn capability(name: &str) -> Capability {
    Capability::parse(name).unwrap()
}

fn spent(requester: &Principal, of: Option<&str>, tokens: u64, now: WallTime) -> Expense {
    let amount = Amount { tokens, tasks: 1, ..Amount::default() };
    Expense { capability: of.map(capability), amount, is_asked: true, ..Expense::new(requester.clone(), now) }
}

#[test]
fn a_quota_of_an_agent_closes_at_its_limit_and_opens_with_the_next_window() {
    let own = serde_json::json!([
        { "tokens": 100, "per": "day" },
        { "capability": "dig", "tasks": 2, "per": "hour", "reached": "wait" },
    ]);
    let mut quotas = quotas(own, serde_json::json!([]));
    let (bob, dig, now) = (user("bob"), capability("dig"), at("2026-11-29T23:10:00Z"));
    let work = NewWork { capability: Some(&dig), requester: &bob };
    assert!(quotas.add(&spent(&bob, None, 79, now), now).is_empty());
    let near = quotas.add(&spent(&bob, Some("dig"), 1, now), now);
    assert_eq!(near.len(), 1, "of the tasks one of two is used: {near:?}");
    assert_eq!(
        (near[0].level, near[0].figures.as_str()),
        (QuotaLevel::Near, "the quota per day: 80 of 100 tokens")
    );
    assert_eq!(quotas.closed(work, Gate::Taken, now), None);
    quotas.begin(&ConversationId::parse("c-1").unwrap(), &spent(&bob, Some("dig"), 0, now));
    let closed = quotas.closed(work, Gate::Taken, now).expect("one is recorded, the other is being recorded");
    assert!(closed.waits && closed.opens == at("2026-11-30T00:00:00Z"), "{closed:?}");
    assert_eq!(quotas.closed(work, Gate::Begun, now), None, "what has begun is counted already");
    let other = NewWork { capability: None, requester: &bob };
    assert_eq!(quotas.closed(other, Gate::Taken, now), None);
    quotas.add(&spent(&bob, None, 30, now), now);
    let closed = quotas.closed(work, Gate::Taken, now).unwrap();
    assert_eq!(
        closed.why,
        "the quota per day is used up: 110 of 100 tokens; it opens again at 2026-11-30T00:00:00.000Z"
    );
    assert!(!closed.waits, "what refuses goes before what waits");
    assert_eq!(quotas.closed(work, Gate::Taken, at("2026-11-30T00:00:00Z")), None);
}

#[test]
fn work_begins_within_the_share_that_the_board_has_granted() {
    let of_mesh = serde_json::json!([
        { "tokens": 100, "per": "day" },
        { "requester": "*", "tasks": 2, "per": "day" },
        { "requester": "user:ann", "tasks": 9, "per": "day" },
    ]);
    let mut quotas = quotas(serde_json::json!([]), of_mesh);
    let (bob, now, wall) = (user("bob"), NodeTime(1_000), at("2026-11-29T10:00:00Z"));
    let work = NewWork { capability: None, requester: &bob };
    let closed = quotas.closed(work, Gate::Asked, wall).unwrap();
    assert!(closed.why.contains("the board can't be reached"), "{closed:?}");
    let wanted = quotas.wanted_shares(work, Gate::Asked, (now, wall));
    let of = |request: &ShareRequest| request.requester.clone();
    assert_eq!(wanted.iter().map(of).collect::<Vec<_>>(), [None, Some(bob.clone())]);
    let ann = user("ann");
    let of_ann =
        quotas.wanted_shares(NewWork { capability: None, requester: &ann }, Gate::Asked, (now, wall));
    assert_eq!(of_ann[1].limits.tasks, Some(9), "a quota of its own goes before that of each");
    let grant = |request: ShareRequest, tokens, all| GrantedShare {
        granted: Amount { tokens, tasks: 1, ..Amount::default() },
        used_by_all: Amount { tokens: all, ..Amount::default() },
        request,
    };
    quotas.granted(wanted.into_iter().map(|request| grant(request, 5, 0)).collect(), (now, wall));
    assert_eq!(quotas.closed(work, Gate::Asked, wall), None);
    assert!(quotas.wanted_shares(work, Gate::Asked, (now, wall)).is_empty());
    quotas.add(&spent(&bob, None, 3, wall), wall);
    let closed = quotas.closed(work, Gate::Asked, wall).unwrap();
    assert!(closed.why.contains("has used its share"), "{closed:?}");
    assert_eq!(
        quotas.closed(work, Gate::Given, wall),
        None,
        "only what is asked for from outside is a task of the mesh"
    );
    let at_once = quotas.wanted_shares(work, Gate::Asked, (now, wall));
    assert_eq!(at_once.len(), 1, "a share that is used up is followed by the next one at once");
    let later = NodeTime(3_000);
    let wanted = quotas.wanted_shares(work, Gate::Asked, (later, wall));
    assert_eq!((wanted.len(), wanted[0].used.tasks), (1, 1), "that of the tasks is used up");
    let notices =
        quotas.granted(wanted.into_iter().map(|request| grant(request, 5, 0)).collect(), (later, wall));
    assert!(notices.is_empty());
    let given = quotas.give_back(NodeTime(90_000));
    assert_eq!(given.iter().map(|given| given.used.tokens).collect::<Vec<_>>(), [3, 3]);
    assert!(quotas.closed(work, Gate::Given, wall).is_some(), "what was given back is not used");
}
