//! The delegation coordinator: what every agent does with a task for `capability: coordinate`. It finds agents, has the
//! parts of the request done at the same time, and makes one answer of it. The decisions are
//! [`protocol::patterns::joint`]'s; here is the talking.
//!
//! Agents of the mesh are asked as a brain asks them: by reports that are taken up when the turn ends. Foreign agents are
//! called within the turn. What is known so far goes from turn to turn as an artifact, the record.

mod discover;
mod foreign_items;

use super::{Brain, PeerSummary, TurnFuture, TurnHandle, TurnRequest, a2a::OVERHEAD};
use crate::outbox::{
    a2a::{
        RemoteAgent,
        callbacks::CallbackRegistry,
        card_fetch::validate_card,
        credentials::Keyring,
        remote_task_runner::cancel_in_background,
        remote_task_store::{ConversationRemoteTasks, RemoteTaskStore},
    },
    outbound_client::OutboundClient,
};
use crate::shared_cell::SharedCell;
use blackboard::store::SharedStore;
use discover::DiscoveredAgent;
use protocol::{
    a2a::limits::{MAX_COORDINATED_CHARS, MAX_PARTS},
    ids::{Address, Capability, ConversationId, EffectId},
    patterns::{
        joint::{
            self, OUTPUT, RECORD, Terms, plan,
            record::{JointRecord, QUESTION},
            so_far,
        },
        turn::{Progress, TurnEnd, TurnSubject},
    },
    question::Question,
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

/// The coordinator of one agent.
#[derive(Clone)]
pub struct Coordinator {
    outside: OutboundClient,
    keyring: Keyring,
    hooks: CallbackRegistry,
    notes: Option<RemoteTaskStore>,
    me: SharedCell<PeerSummary>,
}

impl Coordinator {
    /// One that calls foreign agents through `outside`, with the credentials of `keyring`; `store` is the agent's own.
    /// `me` is what the agent itself can do.
    pub fn new(
        outside: OutboundClient,
        keyring: Keyring,
        hooks: CallbackRegistry,
        store: Option<SharedStore>,
        me: SharedCell<PeerSummary>,
    ) -> Self {
        let notes = store.map(|store| RemoteTaskStore::of_coordinator(me.get().agent_id.clone(), store));
        Self { outside, keyring, hooks, notes, me }
    }

    async fn turn(&self, request: TurnRequest, report: TurnHandle) -> TurnEnd {
        let TurnSubject::Task { description, input, .. } = &request.prompt.about else {
            return TurnEnd::Failed { reason: "only tasks are coordinated".to_owned() };
        };
        let (terms, unreadable) = match Terms::read(input.as_ref()) {
            Ok(terms) => (terms, None),
            Err(reason) => (Terms::default(), Some(reason)),
        };
        let unreadable = unreadable.or_else(|| terms.names_too_much());
        let kept = so_far::kept(&request.prompt.produced);
        let mut run = CoordinatorTurn {
            coordinator: self,
            request: &request,
            terms,
            report,
            record: JointRecord::default(),
            found: BTreeMap::new(),
        };
        match (unreadable, kept) {
            (Some(reason), _) => run.refuse(description, reason).await,
            (None, None) => run.begin(description).await,
            (None, Some(record)) => {
                run.record = record;
                run.go_on().await
            }
        }
    }
}

/// One turn at work.
struct CoordinatorTurn<'a> {
    coordinator: &'a Coordinator,
    request: &'a TurnRequest,
    terms: Terms,
    report: TurnHandle,
    record: JointRecord,
    found: BTreeMap<String, DiscoveredAgent>,
}

impl CoordinatorTurn<'_> {
    /// A request that can't be taken up still has its one answer, which says why.
    async fn refuse(&mut self, text: &str, reason: String) -> TurnEnd {
        self.record.input = text.to_owned();
        self.record.session_id = format!("session-{}", self.request.key);
        let output = self.record.refused(&reason);
        self.show(OUTPUT, output).await;
        self.keep().await;
        TurnEnd::Failed { reason }
    }

    async fn begin(&mut self, text: &str) -> TurnEnd {
        let normalized = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if normalized.is_empty() {
            return self.refuse("", "the request is blank".to_owned()).await;
        }
        if normalized.chars().count() > MAX_COORDINATED_CHARS {
            return self
                .refuse("", format!("the request is longer than {MAX_COORDINATED_CHARS} characters"))
                .await;
        }
        self.record.input = text.to_owned();
        self.record.session_id = format!("session-{}", self.request.key);
        self.record.normalized_input = normalized.clone();
        self.record.audit("preprocess_request", "accepted", "");
        self.discover().await;
        let skills: Vec<_> = self.found.values().flat_map(DiscoveredAgent::advertised).collect();
        let mut plan = plan(&normalized, &self.terms, &skills);
        for item in plan.items.split_off(plan.items.len().min(MAX_PARTS)) {
            let reason = format!("a request has at most {MAX_PARTS} parts");
            plan.unmatched.push(joint::Unmatched { text: item.text, reason });
        }
        self.record.planned(plan);
        if self.record.delegation_plan.is_empty() {
            return self.end().await;
        }
        let mut delegates = Vec::new();
        for item in self.record.delegation_plan.clone() {
            if let Some(DiscoveredAgent::Peer(peer)) = self.found.get(&item.agent) {
                delegates.extend(self.delegate(&item, &peer.agent_id.clone()));
            }
        }
        self.call_foreign(self.fresh()).await;
        if delegates.is_empty() {
            return self.wait_or_end().await;
        }
        self.keep().await;
        for delegate in delegates {
            self.report.send(delegate).await;
        }
        TurnEnd::Waiting
    }

    /// A task for a peer; its result comes with the next turn.
    fn delegate(&mut self, item: &joint::Item, peer: &protocol::ids::AgentId) -> Option<Progress> {
        let Ok(capability) = Capability::parse(&item.skill) else {
            self.record.failed(item, "unsupported", "its skill is no capability");
            return None;
        };
        let (to, input) = (Address::Agent(peer.clone()), None);
        self.record.sent(
            item,
            "mesh",
            json!({
                "agent": item.agent, "skill": item.skill, "session_id": self.record.session_id,
                "message": { "role": "ROLE_USER", "parts": [{ "text": item.text }] },
                "accepted_output_modes": self.terms.accepted_modes,
            }),
        );
        Some(Progress::Delegate {
            id: item.alias.clone(),
            to,
            capability: Some(capability),
            description: item.text.clone(),
            input,
            artifacts: Vec::new(),
            budget: Default::default(),
            wait: true,
        })
    }

    /// A later turn: peers have answered, or the user has.
    async fn go_on(&mut self) -> TurnEnd {
        let mut answered = BTreeMap::new();
        for reply in self.request.prompt.new_answers() {
            if let Some(alias) = reply.id.strip_prefix(QUESTION) {
                answered.insert(alias.to_owned(), reply.text.clone());
            }
            self.record.take(reply, &self.terms.accepted_modes);
        }
        if !answered.is_empty() {
            self.rediscover();
            self.call_foreign(answered.into_iter().map(|(alias, text)| (alias, Some(text))).collect()).await;
        }
        self.wait_or_end().await
    }

    async fn wait_or_end(&mut self) -> TurnEnd {
        if self.record.questions.is_empty() {
            return self.end().await;
        }
        let output = self.record.finish(&self.terms);
        self.show(OUTPUT, output).await;
        self.keep().await;
        for (alias, text) in self.record.questions.clone() {
            let auth = self.record.task_statuses.get(&alias).is_some_and(|status| status == "auth-required");
            let id = format!("{QUESTION}{alias}");
            let question = if auth { Question::credential(id, text) } else { Question::text(id, text) };
            self.report.send(Progress::Question(question)).await;
        }
        TurnEnd::Waiting
    }

    async fn end(&mut self) -> TurnEnd {
        let output = self.record.finish(&self.terms);
        let status = output["status"].as_str().unwrap_or("failed").to_owned();
        let answer = output["answer"].as_str().unwrap_or_default().to_owned();
        self.show(OUTPUT, output).await;
        self.keep().await;
        match status.as_str() {
            "ok" | "partial" => TurnEnd::Done { message: Some(answer) },
            _ => TurnEnd::Failed { reason: format!("{status}: {answer}") },
        }
    }

    async fn keep(&mut self) {
        let record = serde_json::to_value(&self.record).unwrap_or_default();
        self.show(RECORD, record).await;
    }

    /// An artifact of JSON. A foreign agent may have said our own secret back to us; nobody else shall read it.
    async fn show(&mut self, name: &str, mut data: Value) {
        self.coordinator.keyring.mask(&mut data);
        let artifact = so_far::artifact(name, data);
        self.report.send(Progress::Artifact { artifact, append: false, last_chunk: true }).await;
    }

    fn notes(&self) -> Option<ConversationRemoteTasks> {
        let conversation = EffectId::parse(&self.request.key)?.conversation;
        Some(self.coordinator.notes.as_ref()?.for_conversation(&conversation))
    }
}

impl Brain for Coordinator {
    fn think(&self, request: TurnRequest, report: TurnHandle) -> TurnFuture {
        let this = self.clone();
        Box::pin(async move { Ok(this.turn(request, report).await) })
    }

    fn release(&self, conversation: &ConversationId) {
        let Some(page) = self.notes.as_ref().map(|notes| notes.for_conversation(conversation)) else {
            return;
        };
        let (outside, keyring) = (self.outside.clone(), self.keyring.clone());
        page.clone().with_all(move |left| {
            for note in left {
                if let Ok(vetted) = validate_card(&json!(note.card), &outside) {
                    let credentials = keyring.for_agent(&vetted);
                    let remote = RemoteAgent::new(outside.clone(), vetted, credentials);
                    cancel_in_background(remote, Some(page.clone()), note.task_id);
                }
            }
        });
    }

    /// Peers are waited for between turns, foreign agents within one.
    fn turn_timeout(&self, request: &TurnRequest) -> Option<Duration> {
        let TurnSubject::Task { input, .. } = &request.prompt.about else { return None };
        let bounds = Terms::read(input.as_ref()).ok()?.bounds.unwrap_or_default();
        Some(bounds.whole().saturating_add(OVERHEAD))
    }

    fn name(&self) -> &'static str {
        "coordinator"
    }
}
