//! One item of a team's plan: what is asked is checked before anything is sent, and how it went is reported.

use super::SessionWork;
use crate::{
    brain::{TurnHandle, TurnRequest},
    outbox::a2a::{
        RemoteAgent,
        card_fetch::validate_card,
        remote_memory::RemoteMemory,
        remote_task_runner::{RemoteRecords, run},
    },
};
use patterns::{
    session::{
        seat,
        team::{
            report::{ItemOrder, ItemReport, REPORT, artifact, find},
            results,
        },
    },
    turn::{Delegate, Progress, TurnEnd},
};
use protocol::{
    a2a::{
        card_validation::{ValidatedCard, fits},
        credential::{CredentialStatus, standing},
        interaction::InteractionMode,
        message::{Message, Role},
        remote_task::{RemoteTask, RemoteTaskEvent, RemoteTaskOutcome},
    },
    artifact::{Artifact, merge},
    ids::{Address, AgentId, Capability, ConversationId, EffectId},
    question::{Question, RemoteAsker},
    task::EXTENSION,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// The most events of an item that are kept.
const MAX_EVENTS: usize = 200;

pub(super) struct ItemTurn<'a> {
    work: &'a SessionWork,
    request: &'a TurnRequest,
    handle: TurnHandle,
    order: ItemOrder,
    report: ItemReport,
}

/// The order of an item, among the artifacts that its turn is given.
pub(super) fn order(request: &TurnRequest, alias: &str) -> Result<ItemOrder, String> {
    let task = request.prompt.about.task().ok_or("an item is a task")?;
    find(&task.artifacts, alias).ok_or_else(|| format!("there is no order for {alias}"))
}

impl<'a> ItemTurn<'a> {
    pub(super) fn new(
        work: &'a SessionWork,
        request: &'a TurnRequest,
        handle: TurnHandle,
        order: ItemOrder,
    ) -> Self {
        let report = find(&request.prompt.produced, REPORT).unwrap_or_default();
        Self { work, request, handle, order, report }
    }

    /// Has the item done, or takes what came back, and reports.
    pub(super) async fn run(mut self) -> TurnEnd {
        let card = self.order.card.clone();
        let end = match &card {
            Some(card) => match validate_card(card, &self.work.client) {
                Ok(card) => self.call(card).await,
                Err(why) => self.failed("failed", why.join("; ")),
            },
            None => self.ask_peer().await,
        };
        if let TurnEnd::Waiting = end
            && card.is_none()
        {
            return end;
        }
        let mut report = json!(self.report);
        self.work.keyring.mask(&mut report);
        let artifact = artifact(REPORT, report);
        self.handle.send(Progress::Artifact { artifact, append: false, last_chunk: true }).await;
        end
    }

    fn failed(&mut self, status: &str, why: impl Into<String>) -> TurnEnd {
        (self.report.status, self.report.why) = (status.to_owned(), why.into());
        let (agent, skill) = (&self.order.item.agent, &self.order.item.skill);
        let mut reason = json!(format!("{agent} ({skill}) {status}: {}", self.report.why));
        self.work.keyring.mask(&mut reason);
        TurnEnd::Failed { reason: reason.as_str().unwrap_or_default().to_owned() }
    }

    fn completed(&mut self, artifacts: Vec<Artifact>) -> TurnEnd {
        if let Some(why) = results::why_not(&artifacts, &self.order.accepted_modes) {
            return self.failed(RemoteTaskOutcome::Malformed.word(), why);
        }
        RemoteTaskOutcome::Completed.word().clone_into(&mut self.report.status);
        let message = Some(results::summary(&artifacts));
        self.report.artifacts = artifacts;
        TurnEnd::Done { message }
    }

    /// An agent of the mesh does it as a task of its own.
    async fn ask_peer(&mut self) -> TurnEnd {
        let item = self.order.item.clone();
        if let Some(reply) = self.request.prompt.new_answers().last() {
            // The one that a question is shown with, too.
            if let Some(task) = self.request.prompt.about.task() {
                self.report.task_id = Some(task.task_id.to_string());
            }
            self.report.mode = Some("mesh".to_owned());
            self.report.requests.push(json!({
                "agent": item.agent, "skill": item.skill, "session_id": self.order.session_id,
                "message": { "role": "ROLE_USER", "parts": [{ "text": item.text }] },
                "accepted_output_modes": self.order.accepted_modes,
            }));
            if !reply.ok {
                return self.failed(RemoteTaskOutcome::Failed.word(), reply.text.clone());
            }
            let mut artifacts = reply.artifacts.clone();
            if artifacts.is_empty() {
                artifacts.push(Artifact::text("answer", "text/plain", reply.text.clone()));
            }
            return self.completed(artifacts);
        }
        let (Ok(peer), Ok(capability)) = (AgentId::parse(&item.agent), Capability::parse(&item.skill)) else {
            return self.failed("unsupported", "its skill is no capability");
        };
        let (id, to, description) = (item.alias, Address::Agent(peer), item.text);
        let (capability, artifacts, budget) = (Some(capability), Vec::new(), Default::default());
        let ask = Progress::Delegate(Delegate {
            id,
            to,
            capability,
            description,
            input: None,
            artifacts,
            budget,
            hand_on: false,
            wait: true,
        });
        self.handle.send(ask).await;
        TurnEnd::Waiting
    }

    /// A foreign agent does it.
    async fn call(&mut self, card: ValidatedCard) -> TurnEnd {
        let credentials = self.work.keyring.for_agent(&card);
        let remote = RemoteAgent::new(self.work.client.clone(), card, credentials)
            .with_trace(self.request.trace.clone());
        let memory = self.memory(remote.card());
        let task = match self.prepare(&remote, memory.as_ref()) {
            Ok(task) => task,
            Err((status, why)) => return self.failed(status, why),
        };
        let mode = task.mode;
        let (sender, mut events) = mpsc::channel(64);
        let tasks = self.conversation().map(|conversation| self.work.store.for_conversation(&conversation));
        let records = RemoteRecords { tasks, memory };
        let callbacks = Some(self.work.callbacks.clone());
        let mut artifacts = Vec::new();
        let (report, handle, agent) = (&mut self.report, &self.handle, &self.order.item.agent);
        let listen = async {
            while let Some(event) = events.recv().await {
                match &event {
                    RemoteTaskEvent::Polled => report.polls += 1,
                    RemoteTaskEvent::Artifact { artifact, append, .. } => {
                        merge(&mut artifacts, artifact.clone(), *append)
                    }
                    RemoteTaskEvent::Began { .. } => {}
                    RemoteTaskEvent::Status { state, text } => {
                        let text = text.as_deref().unwrap_or(state.word());
                        handle.send(Progress::Status { message: format!("{agent}: {text}") }).await;
                    }
                }
                if event != RemoteTaskEvent::Polled && report.events.len() < MAX_EVENTS {
                    report.events.push(json!(event));
                }
            }
        };
        let (end, ()) =
            tokio::join!(run(remote, self.request.key.clone(), task, records, callbacks, sender), listen);
        self.report.task_id = end.task_id.clone().or_else(|| self.report.task_id.take());
        self.report.context_id = end.context_id.or_else(|| self.report.context_id.take());
        // What came at once needed no second look.
        if let InteractionMode::Sync | InteractionMode::Polling = mode {
            let used = if self.report.polls == 0 { InteractionMode::Sync } else { InteractionMode::Polling };
            self.report.mode = Some(used.word().to_owned());
        }
        let text = end.text.unwrap_or_default();
        match (end.how, end.task_id) {
            (RemoteTaskOutcome::Completed, _) => self.completed(artifacts),
            (how @ (RemoteTaskOutcome::InputRequired | RemoteTaskOutcome::AuthRequired), Some(task)) => {
                how.word().clone_into(&mut self.report.status);
                let name = self.order.item.agent.clone();
                let mode = self.report.mode.clone().unwrap_or_default();
                let remote = Some(Box::new(RemoteAsker { name, task_id: task.clone(), mode }));
                let question = match how == RemoteTaskOutcome::AuthRequired {
                    true => Question::credential(task, text),
                    false => Question::new(task, text),
                };
                self.handle.send(Progress::Question(Question { remote, ..question })).await;
                TurnEnd::Waiting
            }
            (RemoteTaskOutcome::Unauthenticated, _) => {
                self.report.credential = Some("invalid".to_owned());
                self.failed(end.how.word(), text)
            }
            (how, _) => self.failed(how.word(), text),
        }
    }

    /// What is remembered of the agent for this session, and the sessions of the same context before it.
    fn memory(&self, card: &ValidatedCard) -> Option<RemoteMemory> {
        let turn = seat::place(self.request.prompt.about.task()?.input.as_ref())?;
        let earlier = turn.earlier.iter().map(ToString::to_string).collect();
        Some(self.work.store.memory(card, turn.session.to_string(), earlier))
    }

    fn conversation(&self) -> Option<ConversationId> {
        EffectId::parse(&self.request.key).map(|effect| effect.conversation)
    }

    /// What is sent, or why nothing is.
    fn prepare(
        &mut self,
        remote: &RemoteAgent,
        memory: Option<&RemoteMemory>,
    ) -> Result<RemoteTask, (&'static str, String)> {
        let item = &self.order.item;
        let card = remote.card();
        let skill = card.skill(&item.skill);
        let standing = standing(&card.card, skill, &remote.schemes());
        self.report.credential = Some(standing.word().to_owned());
        let asks = &card.card.security_requirements;
        self.report.auth_requirements = (!asks.is_empty()).then(|| json!(asks));
        if let CredentialStatus::Missing { schemes } = standing {
            return Err(("auth_failed", format!("no credential for {}", schemes.join(", "))));
        }
        if !fits("text/plain", card.input_modes(skill)) {
            return Err(("unsupported", "it does not take text/plain".to_owned()));
        }
        let (accepted, offered) = (&self.order.accepted_modes, card.output_modes(skill));
        let usable = ["text/plain".to_owned(), "application/json".to_owned()];
        let wanted: &[String] = if accepted.is_empty() { &usable } else { accepted };
        if !wanted.iter().any(|mode| fits(mode, offered)) {
            let why = format!("it answers in {}, and {} is wanted", offered.join(", "), wanted.join(", "));
            return Err(("unsupported", why));
        }
        let can_be_called = self.work.callbacks.is_reachable();
        let mode = InteractionMode::choose(
            item.mode,
            &card.card.capabilities,
            can_be_called,
            memory.and_then(RemoteMemory::expected),
        )
        .map_err(|why| ("unsupported", why))?;
        let answer = self.request.prompt.new_answers().last();
        let text = answer.map_or_else(|| item.text.clone(), |answer| answer.text.clone());
        let mut message = Message::text(self.request.key.clone(), Role::User, text);
        message.task_id = answer.map(|answer| answer.id.clone());
        let about: Value = json!({
            "capability": item.skill, "skillId": item.skill, "sessionId": self.order.session_id, "alias": item.alias,
        });
        message.metadata.insert(EXTENSION.to_owned(), about);
        let is_streamed = mode.is_streamed(item.mode, &card.card.capabilities);
        let method = if is_streamed { "SendStreamingMessage" } else { "SendMessage" };
        self.report.mode = Some(mode.word().to_owned());
        self.report.requests.push(json!({
            "method": method, "agent": item.agent, "skill": item.skill, "session_id": self.order.session_id,
            "message": message, "accepted_output_modes": wanted,
        }));
        let bounds = self.order.bounds.unwrap_or_default();
        let accepted_modes = wanted.to_vec();
        Ok(RemoteTask { message, accepted_modes, mode, is_streamed, bounds, has_runner_up: false })
    }
}
