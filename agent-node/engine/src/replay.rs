//! The replay audit: the pattern runs again over the recorded events of a conversation, and must give the recorded
//! effects. Pure; used by tests, over journals of the same rules version.

use crate::records::Step;
use patterns::{AnyPattern, Effect};
use std::fmt;

/// Where a journal and its replay differ.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayDivergence {
    pub step: u64,
    pub what: String,
}

impl fmt::Display for ReplayDivergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}: {}", self.step, self.what)
    }
}

impl std::error::Error for ReplayDivergence {}

/// Runs the pattern over the events of `journal`, all steps of one conversation from the first that holds a state of these
/// rules on, and returns its last state. Fails where a step is missing or where the effects differ from the recorded ones.
pub fn audit(journal: &[Step]) -> Result<AnyPattern, ReplayDivergence> {
    let start = journal.iter().enumerate().find_map(|(at, step)| Some((at, step.replay_start()?)));
    let Some((at, start)) = start else {
        let what = "no step holds a state of these rules".to_owned();
        return Err(ReplayDivergence { step: journal.first().map_or(0, |first| first.step), what });
    };
    audit_from(start.clone(), &journal[at..])
}

/// The same, starting from `pattern`, the state before the first step of `journal`.
pub fn audit_from(mut pattern: AnyPattern, journal: &[Step]) -> Result<AnyPattern, ReplayDivergence> {
    let first = journal.first().map_or(1, |first| first.step);
    for (expected, step) in (first..).zip(journal) {
        let differs = |what: String| ReplayDivergence { step: step.step, what };
        if step.step != expected {
            return Err(differs(format!("step {expected} was expected")));
        }
        let effects: Vec<Effect> = step.events.iter().flat_map(|event| pattern.on(event)).collect();
        if effects != step.effects {
            let at = effects.iter().zip(&step.effects).take_while(|(now, then)| now == then).count();
            let (now, then) = (effects.get(at), step.effects.get(at));
            return Err(differs(format!("effect {at} was {then:?}, the replay gives {now:?}")));
        }
    }
    Ok(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{origin::Origin, records::EffectKey};
    use patterns::{Event, EventKind, broadcast::Broadcast};
    use protocol::{
        ids::{AgentId, ConversationId},
        message::{MessageKind, Payload},
        principal::Principal,
        time::{NodeTime, WallTime},
        trace::TraceContext,
    };

    fn journal() -> Vec<Step> {
        let content = serde_json::json!({ "signal": "x.y" }).as_object().unwrap().clone();
        let Ok(Payload::Broadcast(message)) = Payload::parse(MessageKind::Broadcast, content) else {
            panic!("a broadcast");
        };
        let mut pattern: AnyPattern = Broadcast::new(message, &Principal::local_user()).into();
        let (me, id) = (AgentId::parse("a").unwrap(), ConversationId::parse("c").unwrap());
        let trace = |span_id| TraceContext { trace_id: 1, span_id, sampled: false, state: None };
        let mut origin = Some(Box::new(Origin::new(&me, &id, &pattern, None, trace)));
        let happened = [EventKind::Started, EventKind::Published { revision: 7 }];
        let step = |(step, what)| {
            let event = Event { at: NodeTime(0), wall: WallTime(0), what };
            let effects = pattern.on(&event);
            let closes = if step > 1 { vec![(0, EffectKey(1, 0))] } else { Vec::new() };
            Step { step, origin: origin.take(), events: vec![event], closes, effects, ..Step::default() }
        };
        (1..).zip(happened).map(step).collect()
    }

    #[test]
    fn a_journal_replays_and_a_changed_one_does_not() {
        let whole = journal();
        audit(&whole).unwrap();
        let mut changed = whole.clone();
        changed[1].effects.clear();
        assert_eq!(audit(&changed).unwrap_err().step, 2);
        let mut without_state = whole.clone();
        without_state[0].origin = None;
        assert!(audit(&without_state).is_err());
        let gap = [whole[0].clone(), Step { step: 3, ..whole[1].clone() }];
        assert_eq!(audit(&gap).unwrap_err().step, 3);
    }
}
