//! Property tests: whatever events arrive in whatever order, there is one award at a time, one end, and no effect after it.

use super::fixture::*;
use crate::{
    TimerAt, Update,
    contract_net::{Auction, Effect, Label, Timer},
    turn::TurnEnd,
};
use proptest::prelude::*;
use protocol::{
    acceptance::{AcceptanceTerms, CheckVerdict},
    ids::Capability,
    message::Payload,
    principal::Principal,
    task::TaskState,
};
use serde_json::json;
use std::collections::BTreeMap;

const AGENTS: [&str; 4] = ["b-1", "b-2", "b-3", "stranger"];

/// One random action of a test. The first number is an index into [`AGENTS`], for `FireTimer` the index of a timer. A boolean
/// after it is true if the message names the epoch of the last award, and false if it names the number before.
#[derive(Debug, Clone)]
enum Action {
    Bid(usize, u32),
    NoBid(usize),
    Busy(usize),
    Accept(usize, bool),
    Decline(usize, bool),
    Update(usize, bool, u64),
    /// A completed task; the second boolean says whether its artifact has a text.
    Done(usize, bool, bool),
    Undelivered(usize),
    /// Fires a timer whether or not it is set or due.
    FireTimer(usize),
    RepeatLast,
    FireNextTimer,
    Cancel,
    ClaimLost,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let agent = 0..AGENTS.len();
    let action = prop_oneof![
        4 => (agent.clone(), 0..5_u32).prop_map(|(agent, cost)| Action::Bid(agent, cost)),
        1 => agent.clone().prop_map(Action::NoBid),
        1 => agent.clone().prop_map(Action::Busy),
        4 => (agent.clone(), prop::bool::weighted(0.8)).prop_map(|(agent, current)| Action::Accept(agent, current)),
        2 => (agent.clone(), any::<bool>()).prop_map(|(agent, current)| Action::Decline(agent, current)),
        4 => (agent.clone(), prop::bool::weighted(0.8), 0..6_u64).prop_map(|(agent, current, seq)| Action::Update(agent, current, seq)),
        2 => (agent.clone(), any::<bool>(), any::<bool>()).prop_map(|(agent, current, has_text)| Action::Done(agent, current, has_text)),
        1 => agent.prop_map(Action::Undelivered),
        2 => (0..4_usize).prop_map(Action::FireTimer),
        4 => Just(Action::RepeatLast),
        3 => Just(Action::FireNextTimer),
        1 => prop::bool::weighted(0.1).prop_map(|rare| if rare { Action::Cancel } else { Action::RepeatLast }),
        1 => prop::bool::weighted(0.3).prop_map(|rare| if rare { Action::ClaimLost } else { Action::FireNextTimer }),
    ];
    prop::collection::vec(action, 0..60)
}

/// Performs the effects of the manager as the engine and the store of claims do, and asserts that claims, awards and the
/// end follow the rules.
struct SimulatedEngine {
    fixture: ManagerFixture,
    timers: BTreeMap<Timer, u64>,
    pending_results: Vec<EventKind>,
    claimed_epoch: Option<u64>,
    award_epochs: Vec<u64>,
    finish_count: usize,
    /// The verdicts of the checks to come; when none is left, they accept.
    verdicts: Vec<CheckVerdict>,
    /// The last verdict on a result under the newest award.
    last_verdict: Option<CheckVerdict>,
    is_checked: bool,
}

impl SimulatedEngine {
    fn new(terms: AcceptanceTerms, verdicts: Vec<CheckVerdict>) -> Self {
        let candidates = AGENTS[..3].iter().map(|agent| candidate(agent)).collect();
        let mut fixture = ManagerFixture::new(Auction::default(), candidates);
        let is_checked = !terms.is_default();
        fixture.contract_net = fixture.contract_net.with_acceptance(terms);
        let mut engine = Self {
            fixture,
            timers: BTreeMap::new(),
            pending_results: vec![],
            claimed_epoch: None,
            award_epochs: vec![],
            finish_count: 0,
            verdicts,
            last_verdict: None,
            is_checked,
        };
        engine.deliver(EventKind::Started);
        engine
    }

    /// Delivers an event, checks its effects, and queues their results in `pending_results`.
    fn deliver(&mut self, event: EventKind) -> Vec<Effect> {
        let effects = self.fixture.deliver_only(event);
        if self.finish_count > 0 {
            assert!(effects.is_empty(), "after its end: {effects:?}");
        }
        for effect in &effects {
            match effect {
                Effect::Claim { holder, .. } => {
                    assert_eq!(self.claimed_epoch, None, "two claims at the same time");
                    self.fixture.epoch += 1;
                    self.claimed_epoch = Some(self.fixture.epoch);
                    self.pending_results
                        .push(EventKind::Claimed { holder: holder.clone(), epoch: self.fixture.epoch });
                }
                Effect::Release { epoch, .. } => {
                    assert_eq!(self.claimed_epoch, Some(*epoch), "a claim of another epoch was released");
                    self.claimed_epoch = None;
                }
                Effect::FindPeers { label, .. } => {
                    let candidates = AGENTS[..3].iter().map(|agent| candidate(agent)).collect();
                    self.pending_results.push(EventKind::PeersFound {
                        label: *label,
                        candidates,
                        nearest: None,
                    });
                }
                Effect::SetTimer { timer, when: TimerAt::Node(at) } => {
                    self.timers.insert(*timer, at.0);
                }
                Effect::ClearTimer { timer } => drop(self.timers.remove(timer)),
                Effect::Send(message) => {
                    if let Payload::Award(award) = &message.payload {
                        assert_eq!(self.claimed_epoch, Some(award.epoch), "an award without its claim");
                        assert!(
                            self.award_epochs.last().is_none_or(|last| *last < award.epoch),
                            "the epochs of awards must grow"
                        );
                        self.award_epochs.push(award.epoch);
                        self.last_verdict = None;
                    }
                    if let Payload::TaskRequest(review) = &message.payload {
                        let id = review.task_id.clone().unwrap();
                        let verdict = self.verdicts.pop().unwrap_or(CheckVerdict::Accepted);
                        self.pending_results.push(review_ended(id.as_str(), verdict));
                    }
                }
                Effect::RunTurn { turn, .. } => {
                    let end = match self.verdicts.pop().unwrap_or(CheckVerdict::Accepted) {
                        CheckVerdict::Accepted => TurnEnd::Done { message: None },
                        CheckVerdict::Refused => TurnEnd::Rejected { reason: "no test".into() },
                        CheckVerdict::Failed => TurnEnd::Failed { reason: "it died".into() },
                    };
                    self.pending_results.push(EventKind::TurnEnded { turn: *turn, updates: Vec::new(), end });
                }
                Effect::StopTurn => {
                    self.pending_results.retain(|event| !matches!(event, EventKind::TurnEnded { .. }));
                }
                Effect::Update(Update::Checked(check)) => self.last_verdict = Some(check.verdict),
                Effect::Finish(outcome) => {
                    if self.is_checked && outcome.status.state == TaskState::Completed {
                        assert_eq!(self.last_verdict, Some(CheckVerdict::Accepted), "an unchecked result");
                    }
                    self.finish_count += 1;
                    self.timers.clear();
                }
                _ => {}
            }
        }
        effects
    }

    /// Delivers each pending result twice; the second time must change nothing.
    fn deliver_pending_results(&mut self) {
        while let Some(event) = self.pending_results.pop() {
            self.deliver(event.clone());
            let before = self.fixture.contract_net.clone();
            assert!(self.deliver(event).is_empty(), "a repeated result of an effect had effects");
            assert_eq!(before, self.fixture.contract_net);
        }
    }

    /// Fires the next timer at its time; false if none is set.
    fn fire_next_timer(&mut self) -> bool {
        let Some((timer, at)) = self.timers.iter().min_by_key(|(_, at)| **at).map(|(name, at)| (*name, *at))
        else {
            return false;
        };
        self.timers.remove(&timer);
        self.fixture.now_ms = self.fixture.now_ms.max(at);
        self.deliver(timer_fired(timer));
        true
    }

    /// The event of an action, if it has one of its own.
    fn event_of(&self, action: &Action) -> Option<EventKind> {
        let current = self.award_epochs.last().copied().unwrap_or(1);
        let epoch = |is_current: &bool| if *is_current { current } else { current.saturating_sub(1) };
        Some(match action {
            Action::Bid(agent, cost) => bid_received(AGENTS[*agent], f64::from(*cost) / 3.0, "1min", 1.0),
            Action::NoBid(agent) => {
                message_received(AGENTS[*agent], "no-bid", json!({ "taskId": TASK, "reason": "no" }))
            }
            Action::Busy(agent) => message_received(
                AGENTS[*agent],
                "no-bid",
                json!({ "taskId": TASK, "reason": "busy", "freeInMs": 100 }),
            ),
            Action::Accept(agent, is_current) => message_received(
                AGENTS[*agent],
                "award-accept",
                json!({ "taskId": TASK, "epoch": epoch(is_current) }),
            ),
            Action::Decline(agent, is_current) => message_received(
                AGENTS[*agent],
                "award-decline",
                json!({ "taskId": TASK, "epoch": epoch(is_current), "reason": "no" }),
            ),
            Action::Update(agent, is_current, seq) => message_received(
                AGENTS[*agent],
                "task-update",
                json!({ "taskId": TASK, "epoch": epoch(is_current), "seq": seq,
                        "status": { "state": "TASK_STATE_WORKING", "message": "at it" } }),
            ),
            Action::Done(agent, is_current, has_text) => {
                task_completed(AGENTS[*agent], epoch(is_current), if *has_text { "done" } else { "" })
            }
            Action::Undelivered(agent) => EventKind::Undelivered {
                label: Label::Award(current),
                to: agent_id(AGENTS[*agent]),
                reason: "expired".into(),
                message: "gone".into(),
            },
            Action::FireTimer(which) => {
                timer_fired([Timer::Bids, Timer::Round, Timer::Accept, Timer::Lease][*which])
            }
            Action::Cancel => EventKind::Cancelled { by: Principal::local_user(), reason: "enough".into() },
            Action::RepeatLast | Action::FireNextTimer | Action::ClaimLost => return None,
        })
    }
}

/// The result of a review, as the manager's own agent reports it.
pub(super) fn review_ended(task: &str, verdict: CheckVerdict) -> EventKind {
    let (state, message) = match verdict {
        CheckVerdict::Accepted => ("TASK_STATE_COMPLETED", r#"{"accepted":true}"#),
        CheckVerdict::Refused => ("TASK_STATE_COMPLETED", r#"{"accepted":false,"findings":"no test"}"#),
        CheckVerdict::Failed => ("TASK_STATE_FAILED", "no bids"),
    };
    let payload = json!({ "taskId": task, "seq": 1, "state": state, "message": message });
    message_received("planner-01", "task-response", payload)
}

fn terms() -> impl Strategy<Value = AcceptanceTerms> {
    let reviewers = prop::sample::subsequence(vec!["review", "audit"], 0..=2);
    (any::<bool>(), reviewers).prop_map(|(is_checked_here, reviewers)| AcceptanceTerms {
        is_checked_here,
        schema: None,
        reviewers: reviewers.into_iter().map(|name| Capability::parse(name).unwrap()).collect(),
    })
}

fn verdicts() -> impl Strategy<Value = Vec<CheckVerdict>> {
    let verdict = prop_oneof![
        3 => Just(CheckVerdict::Accepted),
        3 => Just(CheckVerdict::Refused),
        1 => Just(CheckVerdict::Failed),
    ];
    prop::collection::vec(verdict, 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn one_award_at_a_time_one_end_and_nothing_after_it(
        actions in actions(),
        delivers_results_at_once in any::<bool>(),
        terms in terms(),
        verdicts in verdicts(),
    ) {
        let mut engine = SimulatedEngine::new(terms, verdicts);
        let mut last_event = None;
        for action in &actions {
            match action {
                Action::FireNextTimer => { engine.fire_next_timer(); }
                Action::RepeatLast => if let Some(event) = last_event.clone() { engine.deliver(event); },
                Action::ClaimLost => {
                    let claiming = engine.pending_results.iter().position(|event| matches!(event, EventKind::Claimed { .. }));
                    if let Some(index) = claiming {
                        engine.pending_results.remove(index);
                        engine.claimed_epoch = None;
                        engine.deliver(EventKind::ClaimLost { holder: None });
                    }
                }
                other => {
                    last_event = engine.event_of(other);
                    if let Some(event) = last_event.clone() { engine.deliver(event); }
                }
            }
            if delivers_results_at_once { engine.deliver_pending_results(); }
        }
        for _ in 0..200 {
            engine.deliver_pending_results();
            if !engine.fire_next_timer() { break; }
        }
        prop_assert_eq!(engine.finish_count, 1, "it must end exactly once: {:?}", engine.fixture.contract_net.record);
        prop_assert_eq!(engine.claimed_epoch, None, "no claim is left behind");
        prop_assert!(engine.fixture.contract_net.record.outcome.is_some());
    }

    #[test]
    fn a_repeated_message_has_no_effects(actions in actions(), terms in terms(), verdicts in verdicts()) {
        let mut engine = SimulatedEngine::new(terms, verdicts);
        for action in &actions {
            let Some(event) = engine.event_of(action) else { engine.fire_next_timer(); engine.deliver_pending_results(); continue };
            engine.deliver(event.clone());
            engine.deliver_pending_results();
            let may_have_effects = matches!(action, Action::Bid(..) | Action::NoBid(_) | Action::Busy(_) | Action::FireTimer(_));
            let repeated_effects = engine.deliver(event);
            if !may_have_effects {
                prop_assert!(repeated_effects.is_empty(), "{:?} again: {:?}", action, repeated_effects);
            }
        }
    }
}
