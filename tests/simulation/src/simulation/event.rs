//! The events of a run and their handlers.

use super::{AttemptTry, Simulation, replies::ReplyTarget, services::BoardRequest};
use crate::{
    brain::BrainAction,
    plan::{self, PlannedEvent},
};
use engine::{AttemptResult, BidQuestionId, IncomingMessage, Input, TimerId, TurnKey};
use patterns::{EventKind, contract_net::bidding::BidAnswer};
use protocol::{
    ids::{MessageId, TaskId},
    message::MessageKind,
    signal::SignalRecord,
    time::NodeTime,
    usage::Usage,
};
use serde_json::json;
use std::{cell::Cell, time::Duration};

/// What happens at a virtual time. An event of an earlier life of an agent is ignored.
#[derive(Debug)]
pub(super) enum Event {
    Planned(PlannedEvent),
    Start { agent: usize },
    Crash { agent: usize, life: u64 },
    Execute { agent: usize, life: u64 },
    Settle { agent: usize, life: u64 },
    Timer { agent: usize, life: u64, timer: TimerId },
    Turn { agent: usize, life: u64, key: TurnKey, token: u64, action: Box<BrainAction> },
    BidAnswered { agent: usize, life: u64, id: BidQuestionId, answer: Result<BidAnswer, String> },
    MessagesArrived { agent: usize, messages: Vec<IncomingMessage>, target: ReplyTarget },
    Attempted { agent: usize, life: u64, attempt: AttemptTry, result: Box<AttemptResult> },
    BoardRequested { agent: usize, life: u64, attempt: AttemptTry, request: Box<BoardRequest> },
    PollBoard { agent: usize, life: u64, reader: u64 },
    SignalArrived { agent: usize, life: u64, reader: u64, signal: Box<SignalRecord> },
    Heartbeat { agent: usize, life: u64 },
    Sweep { agent: usize, life: u64 },
    Continue { agent: usize, life: u64 },
    Drain { agent: usize, life: u64, stage: u8 },
    BoardSweep,
    RegistrySweep,
    BoardRestart,
    RegistryRestart,
    Heal,
    PartitionEnd,
    RepeatRequest { request: usize },
    Cancel { agent: usize, task: TaskId },
    Answer { agent: usize, task: TaskId },
    Redrive { agent: usize, message: MessageId },
    CancelWaiting,
    CheckJournals,
}

impl Simulation {
    /// Handles one event.
    pub(super) fn dispatch(&mut self, event: Event) {
        match event {
            Event::Planned(planned) => self.run_planned(planned),
            Event::Start { agent } => self.start(agent),
            Event::Crash { agent, life } if self.is_alive(agent, life) => self.crash(agent, "as planned"),
            Event::Execute { agent, life } if self.is_alive(agent, life) => self.execute(agent, life),
            Event::Settle { agent, life } if self.is_alive(agent, life) => self.settle(agent),
            Event::Timer { agent, life, timer } if self.is_alive(agent, life) => {
                if self.nodes[agent].timers.remove(&timer) {
                    self.handle(agent, Input::TimerFired(timer));
                }
            }
            Event::Turn { agent, life, key, token, action } if self.is_alive(agent, life) => {
                self.advance_turn(agent, key, token, *action);
            }
            Event::BidAnswered { agent, life, id, answer } if self.is_alive(agent, life) => {
                self.handle(agent, Input::BidAnswered(id, answer, Usage::default()));
            }
            Event::MessagesArrived { agent, messages, target } => self.arrive(agent, messages, target),
            Event::Attempted { agent, life, attempt, result } if self.is_alive(agent, life) => {
                self.end_attempt(agent, attempt, *result);
            }
            Event::BoardRequested { agent, life, attempt, request } => {
                self.answer_board_request(agent, life, attempt, *request);
            }
            Event::PollBoard { agent, life, reader } if self.is_alive(agent, life) => {
                self.poll_board(agent, life, reader);
            }
            Event::SignalArrived { agent, life, reader, signal } if self.is_alive(agent, life) => {
                self.deliver_signal(agent, reader, signal);
            }
            Event::Heartbeat { agent, life } if self.is_alive(agent, life) => self.heartbeat(agent, life),
            Event::Sweep { agent, life } if self.is_alive(agent, life) => {
                self.handle(agent, Input::Sweep);
                self.after(plan::limits().sweep_ms, Event::Sweep { agent, life });
            }
            Event::Continue { agent, life } if self.is_alive(agent, life) => {
                self.handle(agent, Input::Continue);
            }
            Event::Drain { agent, life, stage } if self.is_alive(agent, life) => {
                self.drain(agent, life, stage);
            }
            Event::BoardSweep => {
                if self.board_is_up {
                    self.board.expire(NodeTime(self.now), self.true_wall());
                }
                self.check_readers();
                self.after(500, Event::BoardSweep);
            }
            Event::RegistrySweep => {
                if self.registry_is_up {
                    self.registry.sweep(NodeTime(self.now));
                }
                self.after(1_000, Event::RegistrySweep);
            }
            Event::BoardRestart => {
                if std::mem::take(&mut self.board_loses_signals) {
                    self.note(|| "the board has lost its signals".to_owned());
                    self.board.lose_signals();
                    self.observer.board_lost();
                }
                if !self.board_is_up {
                    self.board_is_up = true;
                    self.board.restart(NodeTime(self.now));
                }
            }
            Event::RegistryRestart => {
                if !self.registry_is_up {
                    self.registry_is_up = true;
                    self.registry.restart(NodeTime(self.now));
                }
            }
            Event::PartitionEnd => self.partition = None,
            Event::Heal => {
                self.note(|| "the world heals".to_owned());
                self.partition = None;
                self.after(0, Event::BoardRestart);
                self.after(0, Event::RegistryRestart);
                for agent in 0..self.nodes.len() {
                    self.after(self.now % 7, Event::Start { agent });
                }
            }
            Event::RepeatRequest { request } => self.send_request(request),
            Event::Cancel { agent, task } => self.cancel(agent, task),
            Event::Answer { agent, task } => self.answer(agent, task),
            Event::Redrive { agent, message } => {
                if self.nodes[agent].agent.is_some() {
                    self.nodes[agent].redriven.insert(message.clone());
                    let reply = self.expect_reply(agent, ReplyTarget::None, None);
                    self.handle(agent, Input::Redrive { message, reply });
                }
            }
            Event::CheckJournals => self.check_journals(),
            Event::CancelWaiting => {
                self.cancel_waiting();
                self.after(10_000, Event::CancelWaiting);
            }
            Event::Crash { .. }
            | Event::Execute { .. }
            | Event::Settle { .. }
            | Event::Timer { .. }
            | Event::BidAnswered { .. }
            | Event::Turn { .. }
            | Event::Attempted { .. }
            | Event::PollBoard { .. }
            | Event::SignalArrived { .. }
            | Event::Heartbeat { .. }
            | Event::Sweep { .. }
            | Event::Continue { .. }
            | Event::Drain { .. } => {}
        }
    }

    /// Does what the seed has planned for this time.
    fn run_planned(&mut self, planned: PlannedEvent) {
        match planned {
            PlannedEvent::Task { to, capability, has_deadline } => {
                let at = self.requests.len();
                let deadline = has_deadline.then(|| self.true_wall().plus(Duration::from_secs(25)));
                let task = format!("t-{at}");
                let mut payload = json!({ "description": format!("ask {at}"), "taskId": task });
                if let Some(members) = payload.as_object_mut() {
                    members.extend(capability.map(|name| ("capability".to_owned(), json!(name))));
                    members.extend(deadline.map(|at| ("deadline".to_owned(), json!(at))));
                    if at.is_multiple_of(3) {
                        members.remove("taskId");
                    }
                    if at % 3 == 1 {
                        members.insert("budget".to_owned(), json!({ "tokens": plan::BUDGET }));
                    }
                }
                self.ask(to, MessageKind::TaskRequest, payload);
            }
            PlannedEvent::Session { to } => {
                let mut graph = json!({
                    "budget": { "turns": 14, "time": "60s" },
                    "stages": [
                        { "id": "table", "order": "turns", "rounds": 3, "seats": ["bidder-02", { "capability": "test" }, "doer-07"] },
                        { "id": "spec", "seats": ["bidder-03"], "gate": ["approve", "revise", "decline"] },
                        { "id": "build", "after": ["table", "spec"], "needs": "settled", "seats": ["bidder-02", { "capability": "chore" }],
                          "next": { "again": "spec" }, "loops": 1 },
                    ],
                });
                // One in four has a work plan and a sealed stage.
                if self.settings.seed % 4 == 3 {
                    graph["budget"]["turns"] = json!(24);
                    graph["stages"].as_array_mut().into_iter().for_each(|stages| {
                        stages.push(json!({
                            "id": "plan", "after": ["table"], "needs": "settled", "seats": ["bidder-03"], "makes": "work-plan",
                            "children": { "retries": 1, "stall": "8s" },
                        }));
                        stages.push(json!({
                            "id": "ideas", "after": ["plan/*"], "needs": "settled", "sealed": true, "rounds": 2,
                            "seats": ["bidder-02", "bidder-03"],
                        }));
                    });
                }
                let payload = json!({ "description": "a session", "capability": "session", "input": graph });
                self.ask(to, MessageKind::TaskRequest, payload);
            }
            PlannedEvent::Burst { to, tasks } => {
                for _ in 0..tasks {
                    let capability = Some("chore");
                    self.run_planned(PlannedEvent::Task { to, capability, has_deadline: false });
                }
            }
            PlannedEvent::OpenTask { to } => {
                let at = self.requests.len();
                // Publishers use the same ids for tasks of their own.
                let payload = json!({
                    "signal": "task.available", "taskId": format!("open-{}", at % 2), "capability": "chore",
                    "refs": { "description": format!("open work {at}") },
                });
                self.ask(to, MessageKind::Broadcast, payload);
            }
            PlannedEvent::Announcement { to } => {
                self.ask(to, MessageKind::Broadcast, json!({ "signal": "acme.news" }))
            }
            PlannedEvent::HelpNeeded { to } => {
                let payload = json!({ "signal": "help.needed", "capability": "advise" });
                self.ask(to, MessageKind::Broadcast, payload);
            }
            PlannedEvent::HelpRequest { to } => {
                let payload = json!({ "question": "why?", "capability": "advise" });
                self.ask(to, MessageKind::HelpRequest, payload);
            }
            PlannedEvent::Crash { agent } => {
                let life = self.nodes[agent].life;
                self.after(0, Event::Crash { agent, life });
            }
            PlannedEvent::Drain { agent } => {
                let life = self.nodes[agent].life;
                self.after(0, Event::Drain { agent, life, stage: 0 });
            }
            PlannedEvent::Partition { sides, length } => {
                self.note(|| format!("the network splits for {length} ms"));
                self.partition = Some(sides);
                self.after(length, Event::PartitionEnd);
            }
            PlannedEvent::BoardOutage { length } => {
                self.note(|| format!("the board is away for {length} ms"));
                self.board_is_up = false;
                self.after(length, Event::BoardRestart);
            }
            PlannedEvent::BoardLoss { length } => {
                self.note(|| format!("the board is away for {length} ms, and loses its signals"));
                (self.board_is_up, self.board_loses_signals) = (false, true);
                self.after(length, Event::BoardRestart);
            }
            PlannedEvent::RegistryOutage { length } => {
                self.note(|| format!("the registry is away for {length} ms"));
                self.registry_is_up = false;
                self.after(length, Event::RegistryRestart);
            }
            PlannedEvent::TurnPanic => {
                self.note(|| "the next rule about the end of a turn panics".to_owned());
                self.rule_panic = Cell::new(Some(|what| {
                    matches!(what, EventKind::TurnEnded { .. } | EventKind::Cancelled { .. })
                }));
            }
            PlannedEvent::RulePanic => {
                self.note(|| "the next rule panics".to_owned());
                self.rule_panic = Cell::new(Some(|_| true));
            }
            PlannedEvent::ClockSkew { agent, by } => self.nodes[agent].skew = by,
        }
    }
}
