//! The work that the host of a session does without its own brain ([`HostWork`]): turns of people and of A2A agents that are not of
//! the mesh, and the stages of a team that is made for one request.

mod discovery;
mod item;

use super::{
    Brain, PeerSummary, TurnFuture, TurnHandle, TurnRequest,
    a2a::{A2aBrain, A2aBrainConfig, OVERHEAD},
};
use crate::outbox::{
    a2a::{
        RemoteAgent,
        callbacks::CallbackRegistry,
        card_fetch::validate_card,
        credentials::{Keyring, SchemeCredentials},
        remote_task_runner::cancel_in_background,
        remote_task_store::RemoteTaskStore,
    },
    outbound_client::OutboundClient,
};
use crate::{shared_cell::SharedCell, workspace::WorkspaceHost};
use item::ItemTurn;
use patterns::{
    session::{
        discussion::StageDiscussion,
        graph::{ForeignSeat, TeamTerms},
        host_work::HostWork,
        person::PersonTurn,
        seat::{self, SeatPlace},
        summary::{SUMMARY, SummaryOutline},
        team::report::{ItemState, aggregate, answer},
        workspace::WorkspaceWork,
    },
    turn::{Progress, TurnEnd, TurnSubject, TurnTask},
};
use protocol::{
    artifact::{Artifact, Part, PartContent},
    ids::{Capability, ConversationId, TaskId},
};
use serde_json::json;
use std::{sync::Arc, time::Duration};

/// Does the work of the sessions that one agent hosts.
#[derive(Clone)]
pub struct SessionWork {
    client: OutboundClient,
    keyring: Keyring,
    callbacks: CallbackRegistry,
    store: RemoteTaskStore,
    me: SharedCell<PeerSummary>,
    /// The repositories that its sessions work in.
    workspaces: WorkspaceHost,
    /// The brain of the agent, which may match parts of a request to skills.
    brain: Arc<dyn Brain>,
}

impl SessionWork {
    /// Calls foreign agents through `client`, with the credentials of `keyring`; `store` holds the records of their tasks. `me`
    /// is what the agent itself can do, and `brain` its own brain.
    pub fn new(
        client: OutboundClient,
        keyring: Keyring,
        callbacks: CallbackRegistry,
        store: RemoteTaskStore,
        me: SharedCell<PeerSummary>,
        brain: Arc<dyn Brain>,
        workspaces: WorkspaceHost,
    ) -> Self {
        Self { client, keyring, callbacks, store, me, workspaces, brain }
    }

    fn work(request: &TurnRequest) -> Result<HostWork, String> {
        let task = request.prompt.about.task().ok_or("only a session gives such work")?;
        HostWork::read(task.input.as_ref())
    }

    async fn plan(self, request: TurnRequest, terms: Box<TeamTerms>, report: TurnHandle) -> TurnEnd {
        let (artifacts, message) = discovery::plan(&self, &request, &terms, &report).await;
        for mut artifact in artifacts {
            self.keyring.mask_artifact(&mut artifact);
            report.send(Progress::Artifact { artifact, append: false, last_chunk: true }).await;
        }
        TurnEnd::Done { message: Some(message) }
    }

    async fn do_item(self, request: TurnRequest, alias: String, report: TurnHandle) -> TurnEnd {
        match item::order(&request, &alias) {
            Ok(order) => ItemTurn::new(&self, &request, report, order).run().await,
            Err(reason) => TurnEnd::Failed { reason },
        }
    }

    /// The brain of a foreign agent's seat.
    fn foreign_brain(&self, seat: ForeignSeat, turn: Option<SeatPlace>) -> Arc<A2aBrain> {
        let ForeignSeat { card, skill, mode, bounds } = seat;
        let (credentials, bounds) = (SchemeCredentials::default(), bounds.unwrap_or_default());
        let config = A2aBrainConfig { card, mode, credentials, bounds };
        let (store, callbacks) = (Some(self.store.clone()), Some(self.callbacks.clone()));
        let brain = A2aBrain::new(config, self.client.clone(), store, callbacks);
        let brain = brain.with_keyring(self.keyring.clone()).with_skill(skill);
        let Some(SeatPlace { session, seat, earlier }) = turn else { return Arc::new(brain) };
        let of_seat = |session: &TaskId| format!("{session}/{seat}");
        Arc::new(brain.in_session(of_seat(&session), earlier.iter().map(of_seat).collect()))
    }
}

impl Brain for SessionWork {
    fn think(&self, mut request: TurnRequest, report: TurnHandle) -> TurnFuture {
        match Self::work(&request) {
            Ok(HostWork::Call(seat)) => {
                // What the seat is in its session is no matter of the foreign agent.
                let mut turn = None;
                if let TurnSubject::Task(task) = &mut request.prompt.about {
                    turn = seat::place(task.terms.input.take().as_ref());
                    task.terms.capability =
                        seat.skill.as_ref().and_then(|skill| Capability::parse(skill).ok());
                }
                self.foreign_brain(seat, turn).think(request, report)
            }
            Ok(HostWork::Ask(turn)) => Box::pin(async move { Ok(ask_person(&request, &turn, report).await) }),
            Ok(HostWork::Match(terms)) => {
                let this = self.clone();
                Box::pin(async move { Ok(this.plan(request, terms, report).await) })
            }
            Ok(HostWork::Item(alias)) => {
                let this = self.clone();
                Box::pin(async move { Ok(this.do_item(request, alias, report).await) })
            }
            Ok(HostWork::Aggregate { terms, items, is_interim }) => {
                Box::pin(async move { Ok(make_answer(request, &terms, &items, is_interim, report).await) })
            }
            Ok(HostWork::Summarize(outline)) => {
                Box::pin(async move { Ok(make_summary(&request, &outline, &report).await) })
            }
            Ok(HostWork::Workspace(work)) => {
                let workspaces = self.workspaces.clone();
                Box::pin(async move { Ok(work_on_repository(&workspaces, &request, work, &report).await) })
            }
            Ok(HostWork::Discussion(about)) => {
                Box::pin(async move { Ok(write_discussion(&request, &about, &report).await) })
            }
            Err(reason) => Box::pin(std::future::ready(Ok(TurnEnd::Failed { reason }))),
        }
    }

    fn release(&self, conversation: &ConversationId) {
        let store = self.store.for_conversation(conversation);
        let (client, keyring) = (self.client.clone(), self.keyring.clone());
        store.clone().with_all(move |tasks| {
            for task in tasks {
                if let Ok(card) = validate_card(&json!(task.card), &client) {
                    let credentials = keyring.for_agent(&card);
                    let remote = RemoteAgent::new(client.clone(), card, credentials);
                    cancel_in_background(remote, Some(store.clone()), task.task_id);
                }
            }
        });
    }

    fn turn_timeout(&self, request: &TurnRequest) -> Option<Duration> {
        match Self::work(request).ok()? {
            HostWork::Call(seat) => Some(seat.bounds.unwrap_or_default().whole().saturating_add(OVERHEAD)),
            HostWork::Item(alias) => {
                let bounds = item::order(request, &alias).ok()?.bounds.unwrap_or_default();
                Some(bounds.whole().saturating_add(OVERHEAD))
            }
            HostWork::Ask(_)
            | HostWork::Match(_)
            | HostWork::Aggregate { .. }
            | HostWork::Summarize(_)
            | HostWork::Workspace(_)
            | HostWork::Discussion(_) => None,
        }
    }

    fn is_unmetered(&self) -> bool {
        true
    }

    fn name(&self) -> &'static str {
        "session-work"
    }
}

/// The turn of a person: the question, then what came of it.
async fn ask_person(request: &TurnRequest, turn: &PersonTurn, report: TurnHandle) -> TurnEnd {
    if let Some(answer) = request.prompt.answers.last() {
        return turn.end(answer);
    }
    let Some(task) = request.prompt.about.task() else {
        return TurnEnd::Failed { reason: "a turn of a person is a task".to_owned() };
    };
    let question = turn.question(&task.description, task.input.as_ref(), &task.artifacts);
    report.send(Progress::Question(question)).await;
    TurnEnd::Waiting
}

/// Makes one answer of what a team has done.
async fn make_answer(
    request: TurnRequest,
    terms: &TeamTerms,
    items: &[ItemState],
    is_interim: bool,
    report: TurnHandle,
) -> TurnEnd {
    let Some(TurnTask { artifacts, .. }) = request.prompt.about.task() else {
        return TurnEnd::Failed { reason: "an answer is made in a task".to_owned() };
    };
    let (output, record) = match aggregate(artifacts, terms, items) {
        Ok(made) => made,
        Err(reason) => return TurnEnd::Failed { reason },
    };
    for artifact in answer(&output, &record) {
        report.send(Progress::Artifact { artifact, append: false, last_chunk: true }).await;
    }
    let word = |name: &str| output[name].as_str().unwrap_or_default().to_owned();
    match (word("status").as_str(), record.refusal) {
        ("ok" | "partial", _) => TurnEnd::Done { message: Some(word("answer")) },
        (status, _) if is_interim => TurnEnd::Done { message: Some(status.to_owned()) },
        (_, Some(reason)) => TurnEnd::Failed { reason },
        (status, None) => TurnEnd::Failed { reason: format!("{status}: {}", word("answer")) },
    }
}

/// Works on the repository of a session.
async fn work_on_repository(
    workspaces: &WorkspaceHost,
    request: &TurnRequest,
    work: WorkspaceWork,
    report: &TurnHandle,
) -> TurnEnd {
    let place = request.prompt.about.task().and_then(|task| seat::place(task.input.as_ref()));
    let Some(SeatPlace { session, .. }) = place else {
        return TurnEnd::Failed { reason: "the work names no session".to_owned() };
    };
    match workspaces.work(&session, work).await {
        Ok(outcome) => {
            let part = Part::new(PartContent::Data(json!(outcome)));
            let artifact =
                Artifact { parts: vec![part], ..Artifact::text("workspace", "application/json", "") };
            report.send(Progress::Artifact { artifact, append: false, last_chunk: true }).await;
            TurnEnd::Done { message: None }
        }
        Err(reason) => TurnEnd::Failed { reason },
    }
}

/// Writes down what was said to all in a stage.
async fn write_discussion(request: &TurnRequest, about: &StageDiscussion, report: &TurnHandle) -> TurnEnd {
    let Some(TurnTask { artifacts, .. }) = request.prompt.about.task() else {
        return TurnEnd::Failed { reason: "a discussion is written down in a task".to_owned() };
    };
    for artifact in about.written(artifacts) {
        report.send(Progress::Artifact { artifact, append: false, last_chunk: true }).await;
    }
    TurnEnd::Done { message: None }
}

/// Makes the summary of a session that ends.
async fn make_summary(request: &TurnRequest, outline: &SummaryOutline, report: &TurnHandle) -> TurnEnd {
    let Some(TurnTask { artifacts, .. }) = request.prompt.about.task() else {
        return TurnEnd::Failed { reason: "a summary is made in a task".to_owned() };
    };
    let mut artifact = Artifact::text(SUMMARY, "text/plain", outline.text(artifacts));
    artifact.description = Some("How each stage has ended, and what each seat has said last".to_owned());
    let files = outline.files(artifacts);
    for artifact in std::iter::once(artifact).chain(files) {
        report.send(Progress::Artifact { artifact, append: false, last_chunk: true }).await;
    }
    TurnEnd::Done { message: outline.message(artifacts) }
}
