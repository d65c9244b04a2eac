//! What a parent reserves for its children, and what it is charged for them.

use super::*;
use protocol::{bid::Cost, budget::Budget, usage::ModelUsage};

fn tokens(tokens: u64) -> Budget {
    Budget { tokens: Some(tokens), cost: None }
}

fn started(given: Budget, bounds: Budget) -> Doing {
    let bounds = TaskBounds { turns: None, tokens: bounds.tokens, cost: bounds.cost };
    let limits = WorkLimits { bounds, ..WorkLimits::default() };
    let spec = TaskSpec { budget: given, ..spec() };
    let mut doer = Doing::new(id("builder"), TaskOwnership::new(spec, Some(requester(None))), None, limits);
    doer.on(&event(1, EventKind::Started));
    doer
}

fn wants(id: &str, budget: Budget, wait: bool) -> Progress {
    let to = Address::Capability(Capability::parse("dig").unwrap());
    let (id, description) = (id.to_owned(), "dig".to_owned());
    Progress::Delegate(Delegate {
        id,
        to,
        capability: None,
        description,
        input: None,
        artifacts: Vec::new(),
        budget,
        hand_on: false,
        wait,
    })
}

fn used(tokens: u64) -> Progress {
    Progress::Usage(ModelUsage { input_tokens: tokens, cost: Cost::new(0.0), ..ModelUsage::default() })
}

fn progress(turn: u32, update: Progress) -> What {
    EventKind::TurnProgress { turn, updates: vec![update] }
}

fn asks(turn: u32, updates: Vec<Progress>) -> What {
    thought(turn, updates, TurnEnd::Waiting)
}

/// The tasks that were sent: request, id and budget.
fn children(effects: &[Effect]) -> Vec<(RequestKey, TaskId, Budget)> {
    let child = |message: &OutgoingMessage| {
        let Label::Request(key) = message.label else { return None };
        let Payload::TaskRequest(request) = &message.payload else { return None };
        Some((key, request.task_id.clone()?, request.budget))
    };
    sent_messages(effects).into_iter().filter_map(child).collect()
}

fn expires(key: RequestKey) -> What {
    EventKind::TimerFired { timer: Timer::Request(key) }
}

fn responds(key: RequestKey, task: &TaskId, tokens: u64) -> What {
    let response = serde_json::json!({ "taskId": task, "seq": 1, "state": "TASK_STATE_COMPLETED", "message": "dug",
        "usage": { "inputTokens": tokens, "outputTokens": 0, "cost": 0.0 } });
    let response = Payload::parse(MessageKind::TaskResponse, response.as_object().unwrap().clone()).unwrap();
    received("builder", Some(key), response)
}

fn reserved(effects: &[Effect]) -> Option<Budget> {
    let reserved = |effect: &Effect| {
        if let Effect::Update(Update::Reserved(reserved)) = effect { Some(*reserved) } else { None }
    };
    effects.iter().rev().find_map(reserved)
}

fn response_usage(effects: &[Effect]) -> protocol::usage::Usage {
    *sent_messages(effects).into_iter().find_map(|message| message.payload.usage()).unwrap()
}

#[test]
fn a_doer_may_use_the_smaller_of_its_own_bound_and_what_it_was_given() {
    for (given, own) in
        [(tokens(100), tokens(500)), (tokens(500), tokens(100)), (tokens(100), Budget::default())]
    {
        let mut doer = started(given, own);
        assert_eq!(doer.view().turn.remaining.tokens, Some(100));
        let effects = doer.on(&event(2, progress(1, used(100))));
        assert!(finishes(&effects).is_empty(), "it may have been the last call: {given} {own}");
        let mut done_with_it = doer.clone();
        let effects = doer.on(&event(3, progress(1, used(1))));
        assert_eq!(finishes(&effects), [TaskState::Failed], "{given} {own}");
        assert_eq!(response_usage(&effects).tokens(), 101);
        let effects = done_with_it.on(&event(3, thought(1, Vec::new(), done("dug"))));
        assert_eq!(finishes(&effects), [TaskState::Completed], "{given} {own}");
        assert_eq!(response_usage(&effects).tokens(), 100);
    }
}

#[test]
fn a_turn_over_its_budget_may_end_with_a_result_and_do_nothing_else() {
    let over = || {
        let mut doer = started(Budget::default(), tokens(100));
        let effects = doer.on(&event(2, progress(1, used(120))));
        let figures = "bounds.tokens: 100 used up: 120 used";
        assert!(effects.contains(&Effect::Update(Update::OverBudget(figures.to_owned()))), "{effects:?}");
        doer
    };
    let ends = [
        (thought(1, vec![Progress::Status { message: "almost".into() }], done("dug")), TaskState::Completed),
        (progress(1, wants("a", Budget::default(), false)), TaskState::Failed),
        (asks(1, vec![wants("a", Budget::default(), true)]), TaskState::Failed),
        (thought(1, Vec::new(), TurnEnd::Failed { reason: "no".into() }), TaskState::Failed),
        (EventKind::TurnFailed { turn: 1, reason: "it died".into() }, TaskState::Failed),
    ];
    for (what, end) in ends {
        let effects = over().on(&event(3, what.clone()));
        assert_eq!(finishes(&effects), [end], "{what:?}");
    }
}

#[test]
fn children_get_what_is_named_or_an_equal_share_and_the_rest_is_released() {
    let mut parent = started(Budget::default(), tokens(1_000));
    parent.on(&event(2, progress(1, used(100))));
    let some = Budget::default();
    let effects = parent.on(&event(
        3,
        asks(1, vec![wants("a", tokens(300), true), wants("b", some, true), wants("c", some, true)]),
    ));
    let sent = children(&effects);
    assert_eq!(sent.iter().map(|child| child.2).collect::<Vec<_>>(), [tokens(300), tokens(200), tokens(200)]);
    assert_eq!(reserved(&effects), Some(tokens(700)));
    let stored = serde_json::to_string(&parent).unwrap();
    let mut parent: Doing = serde_json::from_str(&stored).unwrap();
    let effects = parent.on(&event(4, responds(sent[0].0, &sent[0].1, 50)));
    assert_eq!(
        reserved(&effects),
        Some(tokens(400)),
        "a reservation survives a crash and ends with the answer"
    );
    parent.on(&event(5, responds(sent[1].0, &sent[1].1, 200)));
    let effects = parent.on(&event(6, responds(sent[2].0, &sent[2].1, 0)));
    assert_eq!(parent.view().turn.remaining.tokens, Some(650));
    assert_eq!(reserved(&effects), Some(Budget::default()));
    let effects = parent.on(&event(7, thought(2, Vec::new(), done("all dug"))));
    assert_eq!(response_usage(&effects).tokens(), 350);
}

#[test]
fn a_request_that_is_sent_again_while_it_is_open_is_not_reserved_twice() {
    let mut parent = started(Budget::default(), tokens(1_000));
    let effects = parent.on(&event(2, progress(1, wants("a", tokens(600), false))));
    assert_eq!(children(&effects).len(), 1);
    // Another 600 would not be free. The new request gets half of the 400 that are, as if it were alone.
    let effects = parent
        .on(&event(3, asks(1, vec![wants("a", tokens(600), true), wants("b", Budget::default(), true)])));
    let sent: Vec<_> = children(&effects).iter().map(|child| child.2).collect();
    assert_eq!(sent, [tokens(200)]);
    assert_eq!(reserved(&effects), Some(tokens(800)));
    assert_eq!(parent.task.pending.reserved(), tokens(800));
}

#[test]
fn a_child_without_a_price_fails_a_parent_that_has_a_bound_of_cost() {
    let cost = |cost| Budget { tokens: None, cost: Cost::new(cost) };
    for (given, own, name) in
        [(Budget::default(), cost(1.5), "bounds.cost: 1.5"), (cost(0.5), cost(1.5), "budget.cost: 0.5")]
    {
        let mut parent = started(given, own);
        let effects = parent.on(&event(2, asks(1, vec![wants("a", Budget::default(), true)])));
        let (key, task, _) = children(&effects).remove(0);
        let usage =
            serde_json::json!({ "inputTokens": 7, "outputTokens": 0, "cost": 0.0, "unpricedTokens": 7 });
        let response = serde_json::json!({ "taskId": task, "seq": 1, "state": "TASK_STATE_COMPLETED",
            "message": "dug", "usage": usage });
        let response =
            Payload::parse(MessageKind::TaskResponse, response.as_object().unwrap().clone()).unwrap();
        let effects = parent.on(&event(3, received("builder", Some(key), response)));
        assert_eq!(finishes(&effects), [TaskState::Failed]);
        let why = failure(&effects).unwrap();
        let rest = " can't be kept: the cost of the work for a capability is unknown (7 tokens without a price); \
            give its model a price, or bound tokens. The answer: dug";
        assert_eq!(why, format!("{name}{rest}"));
    }
}

#[test]
fn a_request_for_more_than_is_free_is_refused_with_the_figures() {
    let mut parent = started(tokens(1_000), Budget::default());
    let effects =
        parent.on(&event(2, asks(1, vec![wants("a", tokens(900), true), wants("b", tokens(200), true)])));
    assert_eq!(children(&effects).len(), 1, "the other one is not sent");
    let (key, task, _) = children(&effects).remove(0);
    let effects = parent.on(&event(3, responds(key, &task, 10)));
    let refused = answers(&effects).into_iter().find(|answer| answer.id == "b").unwrap();
    assert_eq!(
        (refused.ok, refused.text.as_str()),
        (false, "budget: 200 tokens are asked for, 100 tokens are free for requests to others")
    );
    // All of a turn's requests are refused: the next turn is told so.
    let effects = parent.on(&event(4, asks(2, vec![wants("c", tokens(2_000), true)])));
    assert!(answers(&effects).iter().any(|answer| answer.id == "c" && !answer.ok), "{effects:?}");
    assert!(effects.iter().any(|effect| matches!(effect, Effect::RunTurn { turn: 3, .. })));
}

#[test]
fn a_silent_child_is_charged_whole_and_one_that_refused_the_task_is_not() {
    let undelivered = |key, reason: &str| {
        let label = Label::Request(key);
        EventKind::Undelivered { label, to: id("builder"), reason: reason.into(), message: "gone".into() }
    };
    let ends = [
        (None, 400),
        (Some("agent_departed"), 0),
        (Some("recipient_unreachable"), 400),
        (Some("expired"), 400),
    ];
    for (reason, charged) in ends {
        let mut parent = started(Budget::default(), tokens(1_000));
        let effects = parent.on(&event(2, asks(1, vec![wants("a", tokens(400), true)])));
        let (key, ..) = children(&effects).remove(0);
        parent.on(&event(3, reason.map_or_else(|| expires(key), |reason| undelivered(key, reason))));
        let left = parent.view().turn;
        assert_eq!(
            (left.used.unreported_tokens, left.remaining.tokens),
            (charged, Some(1_000 - charged)),
            "{reason:?}"
        );
    }
}

#[test]
fn what_is_withdrawn_at_the_end_is_charged_whole() {
    let mut parent = started(Budget::default(), tokens(1_000));
    let effects = parent.on(&event(2, progress(1, wants("a", Budget::default(), false))));
    let (key, _, given) = children(&effects).remove(0);
    assert_eq!(given, tokens(500), "half of what is free");
    assert_eq!(key, FIRST);
    let effects = parent.on(&event(4, progress(1, used(500))));
    assert!(finishes(&effects).is_empty(), "the reservation may come back");
    parent.on(&event(5, progress(1, used(500))));
    let effects = parent.on(&event(6, progress(1, used(1))));
    assert_eq!(finishes(&effects), [TaskState::Failed], "all is used");
    let usage = response_usage(&effects);
    assert_eq!((usage.tokens(), usage.unreported_tokens), (1_501, 500));
}

#[test]
fn the_use_of_an_unmetered_brain_is_unknown_or_all_that_it_was_given() {
    for (given, unknown, unreported) in [(Budget::default(), 1, 0), (tokens(70), 0, 70)] {
        let limits = WorkLimits { is_unmetered: true, ..WorkLimits::default() };
        let spec = TaskSpec { budget: given, ..spec() };
        let mut doer =
            Doing::new(id("builder"), TaskOwnership::new(spec, Some(requester(None))), None, limits);
        doer.on(&event(1, EventKind::Started));
        let usage = response_usage(&doer.on(&event(2, thought(1, Vec::new(), done("done")))));
        assert_eq!((usage.unknown, usage.unreported_tokens), (unknown, unreported));
    }
}

/// What happens to a parent and its children.
#[derive(Debug, Clone)]
enum Happening {
    Uses(u64),
    Delegates(Option<u64>),
    EndsTurn,
    Refuses(usize),
    Responds(usize, u64),
    Expires(usize),
    Crashes,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        (0u64..300).prop_map(Happening::Uses),
        proptest::option::of(0u64..400).prop_map(Happening::Delegates),
        Just(Happening::EndsTurn),
        any::<usize>().prop_map(Happening::Refuses),
        (any::<usize>(), 0u64..500).prop_map(|(child, used)| Happening::Responds(child, used)),
        any::<usize>().prop_map(Happening::Expires),
        Just(Happening::Crashes),
    ]
}

proptest! {
    /// Every child uses at most its budget, and the parent at most what is left to it: the bound holds, whatever is silent.
    #[test]
    fn a_parent_never_gives_and_uses_more_than_its_bound(
        happenings in proptest::collection::vec(happening(), 1..60),
    ) {
        const BOUND: u64 = 1_000;
        let mut parent = started(Budget::default(), tokens(BOUND));
        // Open children, and what all have truly used; a silent child all of its budget.
        let mut open: Vec<(RequestKey, TaskId, u64)> = Vec::new();
        let (mut truly_used, mut turn) = (0u64, 1);
        for (at, happening) in (2u64..).zip(happenings) {
            let left = parent.view().turn.remaining.tokens.unwrap();
            let what = match happening {
                Happening::Uses(tokens) => {
                    let tokens = tokens.min(left.saturating_sub(1));
                    if parent.is_thinking {
                        truly_used += tokens;
                    }
                    progress(turn, used(tokens))
                }
                Happening::Delegates(named) => {
                    let budget = named.map(tokens).unwrap_or_default();
                    progress(turn, wants(&format!("c{at}"), budget, at % 3 == 0))
                }
                Happening::EndsTurn => asks(turn, Vec::new()),
                Happening::Refuses(child) if !open.is_empty() => {
                    let (label, reason) = (Label::Request(open.remove(child % open.len()).0), "busy".to_owned());
                    EventKind::Undelivered { label, to: id("builder"), reason, message: "no".into() }
                }
                Happening::Responds(child, used) if !open.is_empty() => {
                    let (key, task, budget) = open.remove(child % open.len());
                    truly_used += used.min(budget);
                    responds(key, &task, used.min(budget))
                }
                Happening::Expires(child) if !open.is_empty() => {
                    let (key, _, budget) = open.remove(child % open.len());
                    truly_used += budget;
                    expires(key)
                }
                Happening::Crashes => {
                    let stored = serde_json::to_string(&parent).unwrap();
                    parent = serde_json::from_str(&stored).unwrap();
                    continue;
                }
                Happening::Refuses(_) | Happening::Responds(..) | Happening::Expires(_) => continue,
            };
            let effects = parent.on(&event(at, what));
            open.extend(children(&effects).into_iter().map(|(key, task, budget)| (key, task, budget.tokens.unwrap())));
            for effect in &effects {
                if let Effect::RunTurn { turn: next, .. } = effect {
                    turn = *next;
                }
            }
            let reserved: u64 = open.iter().map(|child| child.2).sum();
            if finishes(&effects).is_empty() {
                prop_assert_eq!(parent.view().turn.used.tokens(), truly_used);
                prop_assert_eq!(parent.task.pending.reserved().tokens.unwrap_or_default(), reserved);
            } else {
                let usage = response_usage(&effects).tokens();
                prop_assert_eq!(usage, truly_used + reserved);
            }
            prop_assert!(truly_used + reserved <= BOUND, "{truly_used} used, {reserved} reserved");
            if !finishes(&effects).is_empty() {
                return Ok(());
            }
        }
    }
}

#[test]
fn costs_are_divided_in_whole_millionths() {
    for (bound, one, times) in [(1.0, 0.2, 5), (1.7, 0.1, 17)] {
        let cost = |cost| Budget { tokens: None, cost: Cost::new(cost) };
        let mut parent = started(cost(bound), Budget::default());
        let ids: Vec<_> = (0..times).map(|at| format!("d{at}")).collect();
        let wanted: Vec<_> = ids.iter().map(|id| wants(id, cost(one), true)).collect();
        let sent = children(&parent.on(&event(2, asks(1, wanted))));
        assert_eq!(sent.len(), times, "{times} times {one} of {bound}");
        assert_eq!(parent.view().turn.remaining.cost, Cost::new(0.0));
    }
}

#[test]
fn what_is_used_ends_a_task_and_what_is_reserved_does_not() {
    let mut parent = started(Budget::default(), tokens(1_000));
    let effects =
        parent.on(&event(2, asks(1, vec![wants("a", tokens(300), true), wants("b", tokens(600), true)])));
    let sent = children(&effects);
    let effects = parent.on(&event(3, responds(sent[0].0, &sent[0].1, 500)));
    assert!(finishes(&effects).is_empty(), "500 used and 600 reserved of 1,000: {effects:?}");
    assert_eq!(parent.view().turn.remaining.tokens, Some(0), "nothing is free for further requests");
    let mut over = parent.clone();
    let effects = over.on(&event(4, responds(sent[1].0, &sent[1].1, 500)));
    assert_eq!(failure(&effects).unwrap(), "bounds.tokens: 1000 used up: 1000 used");
    let effects = parent.on(&event(4, responds(sent[1].0, &sent[1].1, 100)));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::RunTurn { turn: 2, .. })));
}

#[test]
fn an_ended_task_reserves_nothing() {
    for end in [done("enough"), TurnEnd::Failed { reason: "no".into() }] {
        let mut parent = started(Budget::default(), tokens(1_000));
        let effects = parent.on(&event(2, progress(1, wants("a", tokens(400), false))));
        assert_eq!(reserved(&effects), Some(tokens(400)));
        let effects = parent.on(&event(3, thought(1, Vec::new(), end)));
        assert_eq!((finishes(&effects).len(), reserved(&effects)), (1, Some(Budget::default())));
        assert_eq!(response_usage(&effects).unreported_tokens, 400);
        assert!(matches!(effects.last(), Some(Effect::Finish(_))), "{effects:?}");
    }
}

#[test]
fn a_request_that_is_sent_at_once_gets_half_of_what_is_free() {
    let mut parent = started(Budget::default(), tokens(1_000));
    let mut ask =
        |id: &str| children(&parent.on(&event(2, progress(1, wants(id, Budget::default(), false)))))[0].2;
    assert_eq!((ask("a"), ask("b"), ask("c")), (tokens(500), tokens(250), tokens(125)));
}

#[test]
fn work_that_is_handed_back_says_what_was_used_and_is_kept_if_its_manager_leaves_too() {
    let ownership =
        TaskOwnership::new(TaskSpec { budget: tokens(1_000), ..spec() }, Some(requester(Some(7))));
    let mut doer = Doing::new(id("builder"), ownership, None, WorkLimits::default());
    doer.on(&event(1, EventKind::Started));
    doer.on(&event(2, progress(1, used(100))));
    doer.on(&event(3, progress(1, wants("a", tokens(400), false))));
    assert!(doer.on(&event(4, EventKind::Draining { reason: None, away_ms: None })).is_empty());
    let effects = doer.on(&event(5, EventKind::Draining { reason: Some("leaving".into()), away_ms: None }));
    let declined = sent_messages(&effects).into_iter().find_map(|message| {
        if let Payload::AwardDecline(decline) = &message.payload { decline.usage } else { None }
    });
    let declined = declined.unwrap();
    assert_eq!(
        (declined.tokens(), declined.unreported_tokens),
        (500, 400),
        "a request of it is charged whole"
    );
}
