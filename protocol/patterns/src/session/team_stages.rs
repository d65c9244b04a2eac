//! The built-in stages of a team: who was matched has a seat in the stage that dispatches, and an answer is made of what they
//! have done, or have done so far while some ask a person.

use super::{
    Session, SessionAction, SessionContext, TurnDoer,
    graph::{BuiltInStage, Graph, Seat, SeatHolder},
    host_work::HostWork,
    state::{MatchedItem, SeatState, StageState},
    team::{
        RECORD,
        record::DelegationRecord,
        report::{self, ItemQuestion, ItemState},
    },
};
use protocol::{artifact::Artifact, ids::Digest};

/// The most characters of a note about a card that can't be had.
const MAX_ERROR: usize = 500;

impl Session {
    /// Adds to the graph what was planned and matched: stages, and the seats of those that dispatch.
    pub fn complete(&self, graph: &mut Graph) {
        graph.stages.retain(|stage| stage.plan().is_none());
        graph.stages.extend(self.planned_stages(graph));
        for place in 0..graph.stages.len() {
            let Some(matched) = graph.matched_by(place).and_then(|place| self.stages.get(place)) else {
                continue;
            };
            let seat = |item: &MatchedItem| {
                Seat::unapproachable(item.alias.clone(), SeatHolder::Matched(item.agent.clone()))
            };
            let seats = matched.items.iter().map(seat).collect();
            if let Some(stage) = graph.stages.get_mut(place) {
                stage.seats = seats;
            }
        }
    }

    /// Takes what a stage has matched.
    pub(super) fn take_match(&mut self, place: usize, artifacts: &[Artifact]) {
        let record: DelegationRecord = report::find(artifacts, RECORD).unwrap_or_default();
        let item = |item: super::team::TeamItem| MatchedItem { alias: item.alias, agent: item.agent };
        for error in &record.errors {
            self.note(error.chars().take(MAX_ERROR).collect());
        }
        if let Some(run) = self.stages.get_mut(place) {
            run.items = record.delegation_plan.into_iter().map(item).collect();
            self.has_grown = true;
        }
    }

    /// The work of the stage `place` that makes an answer; `asks` is what turns ask a person.
    pub(super) fn aggregation(
        &self,
        cx: &SessionContext<'_>,
        place: usize,
        asks: &[(String, ItemQuestion)],
    ) -> HostWork {
        let mut items = Vec::new();
        for before in cx.graph.before(place) {
            let (Some(stage), Some(run)) = (cx.graph.stages.get(before), self.stages.get(before)) else {
                continue;
            };
            if stage.does != Some(BuiltInStage::Dispatch) {
                continue;
            }
            for (seat, planned) in run.seats.iter().zip(&stage.seats) {
                let alias = planned.name.clone();
                let (why, asks) = match &seat.state {
                    SeatState::Failed { why } => (Some(why.clone()), None),
                    SeatState::Speaking { turn } => {
                        (None, asks.iter().find(|(asking, _)| asking == turn).map(|(_, asks)| asks.clone()))
                    }
                    SeatState::Idle | SeatState::Done => (None, None),
                };
                items.push(ItemState { alias, why, asks });
            }
        }
        let terms = Box::new(cx.graph.terms(place));
        HostWork::Aggregate { terms, items, is_interim: !asks.is_empty() }
    }

    /// Nothing goes on before a person has answered what turns ask: the answer so far is made, if the session makes one.
    pub fn asking(&mut self, cx: SessionContext<'_>, asks: &[(String, ItemQuestion)]) -> Vec<SessionAction> {
        let graph = cx.graph;
        let waits = |place: &usize| {
            graph.does(*place) == Some(BuiltInStage::Aggregate)
                && self.stages.get(*place).is_some_and(|run| run.state == StageState::Waiting)
        };
        let Some(place) = (0..graph.stages.len()).find(waits).filter(|_| !self.is_over) else {
            return Vec::new();
        };
        let work = self.aggregation(&cx, place, asks);
        let HostWork::Aggregate { items, .. } = &work else { return Vec::new() };
        let digest = Digest::of(format!("{items:?} {}", self.next).as_bytes());
        let is_asked = items.iter().any(|item| item.asks.is_some());
        if !is_asked || self.interim.is_some() || self.shown == Some(digest) {
            return Vec::new();
        }
        self.shown = Some(digest);
        self.interims += 1;
        let id = format!("interim.{}", self.interims);
        self.interim = Some(id.clone());
        let turn = self.seat_turn(&cx, (place, 0), id, TurnDoer::Host(work));
        vec![SessionAction::Turn(Box::new(turn))]
    }
}
