//! How agents use the board and the registry.

use super::{ACK_TIMEOUT, AttemptTry, BOARD, REGISTRY, Simulation, event::Event, replies::ReplyTarget};
use crate::plan::QUIET_AT;
use engine::{Agent, AttemptResult, ClaimRequest, Input};
use protocol::{
    principal::Principal,
    problem::{Problem, Reason},
    signal::{Cursor, Selector, Signal, SignalRecord},
    spaces::{may::space_not_found, request::SpaceRequest},
    task::OpenTaskKey,
    time::NodeTime,
};
use store_types::Revision;

/// A request of an agent to the board.
#[derive(Debug)]
pub(super) enum BoardRequest {
    Publish(Vec<Signal>),
    Claim(OpenTaskKey, ClaimRequest),
    AskSpace(Box<SpaceRequest>),
}

/// An agent's reader of the board.
#[derive(Debug)]
pub(super) struct BoardReader {
    pub(super) id: u64,
    pub(super) selector: Selector,
    pub(super) cursor: Option<Cursor>,
    /// Up to this revision no further signal matches.
    pub(super) scanned: Revision,
    /// Since when the agent has had a signal in hand.
    pub(super) delivering_since: Option<u64>,
}

impl Simulation {
    /// Sends a request to the board.
    pub(super) fn request_board(
        &mut self,
        agent: usize,
        life: u64,
        attempt: AttemptTry,
        request: BoardRequest,
    ) {
        let timeout = Problem::new(Reason::BlackboardUnavailable, "no answer in time");
        let failed = Box::new(AttemptResult::Failed(timeout));
        self.after(ACK_TIMEOUT, Event::Attempted { agent, life, attempt, result: failed });
        if let Some(delay) = self.travel(agent, BOARD) {
            self.after(delay, Event::BoardRequested { agent, life, attempt, request: Box::new(request) });
        }
    }

    /// The board answers, if it is up.
    pub(super) fn answer_board_request(
        &mut self,
        agent: usize,
        life: u64,
        attempt: AttemptTry,
        request: BoardRequest,
    ) {
        let me = self.nodes[agent].id.clone();
        let now = (NodeTime(self.now), self.true_wall());
        if !self.board_is_up {
            return;
        }
        let answer = match request {
            BoardRequest::Publish(signals) => {
                let by = Principal::Agent(me.clone());
                let mut results = Vec::new();
                for signal in signals {
                    self.check_artifact_order(agent, &signal);
                    let published = self.board.publish(&by, &signal, now.1);
                    let is_refused = published.is_err();
                    if !is_refused && self.nodes[agent].life == life {
                        self.check_artifact(agent, &signal);
                    }
                    results.push(published);
                    if is_refused {
                        break;
                    }
                }
                Ok(AttemptResult::Published(results))
            }
            // The board of the simulation has no spaces.
            BoardRequest::AskSpace(request) => Err(space_not_found(&request.space)),
            BoardRequest::Claim(task, request) => {
                self.board.claim(&me, &task, request, now).map(AttemptResult::Claim)
            }
        };
        if let Err(problem) = &answer {
            self.note(|| format!("the board refuses {me}: {problem}"));
        }
        let rate = self.faults.reply_loss;
        if self.chance(rate) {
            return;
        }
        if let Some(delay) = self.travel(BOARD, agent) {
            let result = Box::new(answer.unwrap_or_else(AttemptResult::Failed));
            self.after(delay, Event::Attempted { agent, life, attempt, result });
        }
    }

    /// Reads the next signal for an agent, or the head of the board for one without a cursor.
    pub(super) fn poll_board(&mut self, agent: usize, life: u64, id: u64) {
        let is_unreachable = !self.board_is_up || self.is_partitioned(agent, BOARD);
        let Some(reader) = self.nodes[agent].reader.as_mut().filter(|reader| reader.id == id) else {
            return;
        };
        if reader.delivering_since.is_some() {
            return;
        }
        if is_unreachable {
            self.nodes[agent].reader = None;
            let lost = Problem::new(Reason::BlackboardUnavailable, "the stream ended");
            return self.handle(agent, Input::SubscriptionLost(lost));
        }
        let Some(cursor) = reader.cursor.clone() else {
            self.nodes[agent].reader = None;
            let head = self.board.position();
            let head = Cursor { generation: Some(head.generation), revision: head.head };
            return self.handle(agent, Input::BoardHead(head));
        };
        if let Err(problem) = cursor.check(&self.board.position()) {
            self.nodes[agent].reader = None;
            return self.handle(agent, Input::SubscriptionLost(problem));
        }
        let head = self.board.head();
        let after = cursor.revision.max(reader.scanned);
        let next = (reader.scanned < head).then(|| self.board.next(&reader.selector, after));
        match next.flatten() {
            Some(signal) => {
                reader.delivering_since = Some(self.now);
                let delay = self.random.between(1, 60);
                self.after(delay, Event::SignalArrived { agent, life, reader: id, signal: Box::new(signal) });
            }
            None => {
                reader.scanned = head;
                self.after(
                    if self.now < QUIET_AT { 100 } else { 5_000 },
                    Event::PollBoard { agent, life, reader: id },
                );
            }
        }
    }

    /// Hands a signal to an agent that still reads the board.
    pub(super) fn deliver_signal(&mut self, agent: usize, id: u64, signal: Box<SignalRecord>) {
        if self.nodes[agent].reader.as_ref().is_some_and(|reader| reader.id == id) {
            let target = ReplyTarget::BoardReader { signal: signal.clone() };
            let reply = self.expect_reply(agent, target, None);
            self.handle(agent, Input::Signal(signal, reply));
        }
    }

    /// An agent sends a heartbeat, registers if it is unknown, and updates its directory.
    pub(super) fn heartbeat(&mut self, agent: usize, life: u64) {
        let pause = if self.now < QUIET_AT { 2_000 } else { 5_000 };
        self.after(pause, Event::Heartbeat { agent, life });
        if !self.registry_is_up || self.is_partitioned(agent, REGISTRY) {
            return;
        }
        let now = NodeTime(self.now);
        let node = &mut self.nodes[agent];
        let running = node.agent.as_ref().map_or(0, Agent::running);
        let is_known = node
            .incarnation
            .is_some_and(|incarnation| self.registry.heartbeat(&node.id, incarnation, running, now));
        if !is_known {
            let instance = format!("{}-{life}", node.id);
            node.incarnation = self.registry.register(node.config.card.clone(), &instance, now);
        }
        if node.directory.version != self.registry.version {
            let is_first = node.directory.version == 0;
            node.directory.update(self.registry.all(now), self.registry.version);
            if is_first {
                self.handle(agent, Input::DirectorySynced);
            }
        }
    }
}
