//! Requests that the agent's own process sends, without a turn.

use super::*;

fn sent_alone(request: Progress) -> (Doing, Vec<Effect>) {
    let spec = TaskSpec { path: Vec::new(), root: Principal::Agent(id("builder")), ..spec() };
    let ownership = TaskOwnership::new(spec, None);
    let mut work = Doing::requesting(id("builder"), ownership, request, WorkLimits::default());
    assert_eq!(work.view().work, Some(WorkPhase::AwaitsAgents), "it takes no place");
    let effects = work.on(&event(1, EventKind::Started));
    (work, effects)
}

fn runs_turn(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::RunTurn { .. }))
}

#[test]
fn a_lone_request_is_sent_at_once_and_ends_with_its_answer() {
    let (mut work, effects) = sent_alone(help("request"));
    assert_eq!(sent_messages(&effects).len(), 1, "{effects:?}");
    assert!(!runs_turn(&effects) && work.view().work == Some(WorkPhase::AwaitsAgents));
    let response = message::HelpResponse {
        answer: Some("yes".into()),
        declined: None,
        artifacts: vec![Artifact::text("a", "text/plain", "x")],
        usage: Default::default(),
        extra: Map::new(),
    };
    let effects = work.on(&event(2, received("reviewer", Some(FIRST), Payload::HelpResponse(response))));
    assert_eq!(finishes(&effects), [TaskState::Completed]);
    assert!(
        !runs_turn(&effects)
            && effects.iter().any(|effect| matches!(effect, Effect::Update(Update::Artifact { .. })))
    );
    assert!(
        !effects.iter().any(|effect| matches!(effect, Effect::Publish { .. })),
        "the doer tells the board"
    );
}

#[test]
fn a_lone_request_that_is_not_taken_fails_and_a_cancel_withdraws_it() {
    let to = Address::Agent(id("nobody"));
    let Progress::Delegate(delegate) = delegate("request") else { unreachable!() };
    let request = || Progress::Delegate(Delegate { to: to.clone(), ..delegate.clone() });
    let (mut work, _) = sent_alone(request());
    let undelivered = EventKind::Undelivered {
        label: Label::Request(FIRST),
        to: id("nobody"),
        reason: Reason::AgentNotFound.code().to_owned(),
        message: "no agent nobody is known".to_owned(),
    };
    let effects = work.on(&event(2, undelivered));
    assert_eq!(failure(&effects).as_deref(), Some("no agent nobody is known"));
    let (mut work, _) = sent_alone(request());
    let cancelled = EventKind::Cancelled { by: Principal::Brain(id("builder")), reason: "late".to_owned() };
    let effects = work.on(&event(2, cancelled));
    assert_eq!(finishes(&effects), [TaskState::Canceled]);
    let withdrawn = sent_messages(&effects);
    assert!(matches!(withdrawn[0].payload, Payload::TaskCancel(_)), "{effects:?}");
}

#[test]
fn the_only_turn_that_an_agent_may_take_is_not_needed_for_a_lone_request() {
    let ownership = TaskOwnership::new(spec(), None);
    let bounds = TaskBounds { turns: Some(1), ..TaskBounds::default() };
    let limits = WorkLimits { bounds, ..WorkLimits::default() };
    let mut work = Doing::requesting(id("builder"), ownership, help("request"), limits);
    let effects = work.on(&event(1, EventKind::Started));
    assert_eq!((finishes(&effects), sent_messages(&effects).len()), (Vec::new(), 1));
}
