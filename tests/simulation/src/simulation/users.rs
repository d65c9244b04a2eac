//! The users: they send requests, repeat them, answer questions, cancel tasks and send dead letters again.

use super::{Simulation, event::Event, node::Node, replies::ReplyTarget};
use crate::plan::{CANCEL_AT, HEAL_AT, LEFT_OPEN_UNTIL};
use engine::{Ack, IncomingMessage, Input, tasks};
use protocol::{
    envelope::Envelope,
    ids::{Address, AgentId, Digest, MessageId, QuestionId, TaskId},
    message::{MessageKind, Payload},
    principal::{Principal, SenderProof},
    problem::Problem,
    question::{Answer, Decision, QuestionKind},
    task::TaskState,
    trace::TraceContext,
};

/// A request of a user.
#[derive(Debug)]
pub(super) struct UserRequest {
    pub(super) to: usize,
    pub(super) message: Box<IncomingMessage>,
    pub(super) is_task: bool,
    pub(super) attempts: u32,
    /// The generation of the agent's data when it accepted the request, and its answer.
    pub(super) accepted: Option<(u64, Ack)>,
}

impl Simulation {
    /// A user makes a request.
    pub(super) fn ask(&mut self, to: usize, kind: MessageKind, payload: serde_json::Value) {
        let Ok(payload) = Payload::parse(kind, payload.as_object().cloned().unwrap_or_default()) else {
            return self.fail(format!("the simulator's own {} is wrong", kind.wire()));
        };
        let at = self.requests.len();
        let (Ok(message_id), Ok(user)) = (MessageId::parse(&format!("m-{at}")), AgentId::parse("somebody"))
        else {
            return;
        };
        let envelope = Envelope {
            message_id,
            from_agent_id: user,
            to_agent_id: Address::Agent(self.nodes[to].id.clone()),
            payload,
            timestamp: None,
            conversation_id: None,
            thread_id: None,
            space_id: None,
            in_reply_to: None,
            reply_conversation_id: None,
            reply_to: None,
            expires_at: None,
            path: Vec::new(),
            extra: serde_json::Map::new(),
        };
        let message = Box::new(IncomingMessage {
            proof: SenderProof::Credential,
            digest: Digest::of(&serde_json::to_vec(&envelope).unwrap_or_default()),
            envelope: Box::new(envelope),
            by: Principal::local_user(),
            trace: None::<TraceContext>,
            contact: None,
            origin: None,
            approval: None,
        });
        let is_task = kind == MessageKind::TaskRequest;
        self.requests.push(UserRequest { to, message, is_task, attempts: 0, accepted: None });
        self.send_request(at);
    }

    /// Sends a request, again or for the first time.
    pub(super) fn send_request(&mut self, request: usize) {
        let UserRequest { to, message, .. } = &self.requests[request];
        let (to, message) = (*to, message.as_ref().clone());
        self.after(
            1,
            Event::MessagesArrived {
                agent: to,
                messages: vec![message],
                target: ReplyTarget::User { request },
            },
        );
        // An impatient client sends it twice.
        if self.chance(150) {
            let message = self.requests[request].message.as_ref().clone();
            let delay = self.random.between(1, 12);
            self.after(
                delay,
                Event::MessagesArrived {
                    agent: to,
                    messages: vec![message],
                    target: ReplyTarget::User { request },
                },
            );
        }
    }

    /// A user gets the answer to a request: the same one each time, as long as the agent has its data.
    pub(super) fn on_user_reply(&mut self, agent: usize, at: usize, answer: Result<Ack, Problem>) {
        let (me, generation) = (self.nodes[agent].id.clone(), self.nodes[agent].data_generation);
        let now = self.now;
        let request = &mut self.requests[at];
        match answer {
            Ok(ack) => {
                let id = request.message.envelope.message_id.clone();
                if let Some((before, first)) = &request.accepted {
                    let is_same =
                        (&first.task_id, &first.conversation_id) == (&ack.task_id, &ack.conversation_id);
                    if *before == generation && !is_same {
                        let failure = format!("{me}: {id} was taken as {first:?}, and then as {ack:?}");
                        self.fail(failure);
                    }
                    return;
                }
                request.accepted = Some((generation, ack.clone()));
                let is_task = request.is_task;
                self.tasks += u64::from(is_task);
                self.note(|| format!("{me} took {id} of a user"));
                if self.random.chance(250) && now < HEAL_AT {
                    let delay = self.random.below(15_000);
                    self.after(delay, Event::RepeatRequest { request: at });
                }
                if let Some(task) = ack.task_id.filter(|_| is_task)
                    && self.random.chance(180)
                {
                    let delay = self.random.below(20_000);
                    self.after(delay, Event::Cancel { agent, task });
                }
            }
            Err(problem) => {
                let id = request.message.envelope.message_id.clone();
                request.attempts += 1;
                let is_repeated = request.attempts < 4 && problem.reason.status() >= 500;
                self.note(|| format!("{me} did not take {id} of a user: {problem}"));
                if is_repeated {
                    self.after(1_500, Event::RepeatRequest { request: at });
                }
            }
        }
    }

    /// Users react to a durable write: they may send a dead letter again, or answer a task that waits.
    pub(super) fn users_react(&mut self, agent: usize, written: Option<&store_types::Batch>) {
        let Some(batch) = written else { return };
        let me = self.nodes[agent].id.clone();
        for write in &batch.writes {
            let tokens = write.key().tokens();
            let topic = tokens.get(1).map(String::as_str);
            if topic == Some("dead") && self.random.chance(250) && write.value().is_some() {
                let message = tokens.get(2).and_then(|id| MessageId::parse(id).ok());
                let delay = self.random.below(10_000);
                if let Some(message) = message.filter(|_| self.now < CANCEL_AT) {
                    self.after(delay, Event::Redrive { agent, message });
                }
            }
            if topic != Some("task") {
                continue;
            }
            let Some(task) = tokens.get(2).and_then(|id| TaskId::parse(id).ok()) else { continue };
            let tasks = self.observer.agent(&me).tasks.iter();
            let user = Principal::local_user();
            let waits = tasks.filter(|((of, _), _)| *of == task).any(|((_, owner), row)| {
                let is_users = *owner == user || row.epoch.is_some() && task.as_str().starts_with("open-");
                is_users && row.state == TaskState::InputRequired
            });
            if waits && self.random.chance(700) {
                let delay = self.random.between(100, 8_000);
                self.after(delay, Event::Answer { agent, task });
            }
        }
    }

    /// A user cancels a task.
    pub(super) fn cancel(&mut self, agent: usize, task: TaskId) {
        if self.nodes[agent].agent.is_none() {
            return;
        }
        let reply = self.expect_reply(agent, ReplyTarget::Owner { is_cancel: true }, None);
        let (by, reason) = (Principal::local_user(), "no longer wanted".to_owned());
        self.handle(agent, Input::Cancel { task, by, reason, calls: Vec::new(), reply });
    }

    /// A user answers the question of a task.
    pub(super) fn answer(&mut self, agent: usize, task: TaskId) {
        if self.nodes[agent].agent.is_none() {
            return;
        }
        let reply = self.expect_reply(agent, ReplyTarget::Owner { is_cancel: false }, None);
        let (by, message) = (Principal::local_user(), None);
        let Node { id: me, store, .. } = &self.nodes[agent];
        let row = tasks::find(&store.settled, me, &task, &by).ok().flatten();
        let asked = row.and_then(|row| row.task.status.questions.first().cloned());
        let question = asked.as_ref().and_then(|asked| QuestionId::parse(&asked.id).ok());
        let is_persons = asked.is_some_and(|asked| asked.kind == QuestionKind::Approval);
        let answer = match is_persons {
            true => self.decision(),
            false => Answer::text("the first"),
        };
        self.handle(agent, Input::Answer { task, by, question, answer, message, is_persons, reply });
    }

    /// What a user decides at a gate.
    fn decision(&mut self) -> Answer {
        let (decision, reason) = match self.random.below(10) {
            0..6 => (Decision::Approve, None),
            6..9 => (Decision::Deny, Some("make it shorter".to_owned())),
            _ => (Decision::Deny, None),
        };
        Answer::decide(decision, reason)
    }

    /// Users cancel the tasks that wait for an answer, but for one, which they leave open for a while.
    pub(super) fn cancel_waiting(&mut self) {
        let user = Principal::local_user();
        let mut waiting = Vec::new();
        for (id, observed) in &self.observer.agents {
            let Some(&agent) = self.index.get(id) else { continue };
            for ((task, owner), row) in &observed.tasks {
                let is_users = *owner == user || row.root == user;
                if is_users && row.state == TaskState::InputRequired {
                    waiting.push((agent, task.clone()));
                }
            }
        }
        if self.left_open.is_none() {
            self.left_open = waiting.first().cloned();
        }
        waiting.retain(|one| self.now >= LEFT_OPEN_UNTIL || self.left_open.as_ref() != Some(one));
        for (agent, task) in waiting {
            self.cancel(agent, task);
        }
    }
}
