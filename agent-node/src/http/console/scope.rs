//! Whose agents a page shows, and to whom.

use crate::{
    clock::wall_time,
    http::{
        node_state::{HostedAgent, NodeState},
        registry_calls::OpenQuestion,
        routes::{inbox::open_questions, messages::proof_of},
    },
    tasks,
};
use actix_web::{HttpRequest, web};
use console::viewer::Viewer;
use engine::records::TaskRow;
use patterns::session::is_shown_to;
use protocol::{
    ids::{AgentId, Capability, TaskId},
    principal::{Principal, SenderProof},
    problem::{Problem, Reason},
};
use std::collections::BTreeMap;

/// The capabilities of the agents that are there, and how many agents have each.
pub(super) fn capabilities(node: &NodeState) -> BTreeMap<Capability, usize> {
    let mut all = BTreeMap::new();
    for card in node.peers.present().values() {
        for skill in &card.skills {
            *all.entry(skill.id.clone()).or_default() += 1;
        }
    }
    all
}

/// The agents that a page shows: the one of its port, or all of the process at the port of the registry and the board.
#[derive(Clone)]
pub(super) struct ConsoleScope {
    pub(super) agents: Vec<HostedAgent>,
    /// Whether a list spans several agents, some of which may be in other processes.
    pub(super) spans: bool,
    pub(super) by: Principal,
    pub(super) proof: SenderProof,
}

impl ConsoleScope {
    /// The scope of `request`. Fails for who is no user.
    pub(super) fn of(request: &HttpRequest, node: &NodeState, by: &Principal) -> Result<Self, Problem> {
        if !matches!(by, Principal::User(_)) {
            return Err(Problem::new(Reason::Forbidden, format!("the console is for people, not for {by}")));
        }
        let agents = match node.agent_of_port(request) {
            Some(local) => vec![local.clone()],
            None => node.agents.values().cloned().collect(),
        };
        let spans = agents.len() != 1;
        Ok(Self { agents, spans, by: by.clone(), proof: proof_of(request) })
    }

    /// Whether a credential proves the viewer, who may then do something.
    pub(super) fn is_signed_in(&self) -> bool {
        self.proof == SenderProof::Credential
    }

    /// The agent of this name; the first if it is empty. Fails if it is not shown here.
    pub(super) fn agent(&self, id: &str) -> Result<&HostedAgent, Problem> {
        let found = self.agents.iter().find(|local| id.is_empty() || local.id.as_str() == id);
        found.ok_or_else(|| Problem::new(Reason::AgentNotFound, format!("no agent {id} is shown here")))
    }

    /// Reads at the stores of the agents, beside the requests of others.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Self) -> Result<T, store::Error> + Send + 'static,
    ) -> Result<T, Problem> {
        let own = self.clone();
        let read = web::block(move || read(&own)).await;
        read.map_err(|error| Problem::new(Reason::Overloaded, error.to_string()))?.map_err(Problem::from)
    }

    /// The questions that wait for the viewer.
    pub(super) fn questions(&self) -> Result<Vec<OpenQuestion>, store::Error> {
        open_questions(&self.agents, &self.by, !self.is_signed_in())
    }

    /// The viewer, for whom `waiting` questions wait; the agents of these names gave no answer.
    pub(super) fn viewer(&self, waiting: usize, silent: Vec<String>) -> Viewer {
        Viewer {
            who: self.by.to_string(),
            is_signed_in: self.is_signed_in(),
            now: wall_time(),
            waiting,
            silent,
        }
    }

    /// A task of the viewer: at the agent of this name, or at the first that has it.
    pub(super) fn task(&self, agent: &str, id: &str) -> Result<(&HostedAgent, TaskRow), Problem> {
        let unknown = || Problem::new(Reason::TaskNotFound, format!("no task {id} of yours is known here"));
        let task = TaskId::parse(id).map_err(|_| unknown())?;
        for local in self.agents.iter().filter(|local| agent.is_empty() || local.id.as_str() == agent) {
            let row = tasks::row(local.store.as_ref(), &local.id, &task, &self.by).map_err(Problem::from)?;
            if let Some(row) = row.filter(|row| is_shown_to(&row.task, &self.by, self.proof)) {
                return Ok((local, row));
            }
        }
        Err(unknown())
    }

    /// The ids of the agents.
    pub(super) fn ids(&self) -> Vec<AgentId> {
        self.agents.iter().map(|local| local.id.clone()).collect()
    }
}
