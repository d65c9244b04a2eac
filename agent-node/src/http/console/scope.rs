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
use actix_web::{HttpRequest, http::header, web};
use console::viewer::Viewer;
use engine::records::TaskRow;
use patterns::session::is_shown_to;
use protocol::{
    ids::{AgentId, Capability, TaskId},
    principal::{Principal, SenderProof},
    problem::{Problem, Reason},
};
use registry::entry::AgentQuery;
use std::collections::BTreeMap;

/// The capabilities of the agents that are there, and how many agents have each.
pub(super) async fn capabilities(node: &NodeState) -> Result<BTreeMap<Capability, usize>, Problem> {
    let cards: Vec<_> = match &node.local_services.registry {
        Some(registry) => {
            registry.read(AgentQuery::default()).await?.agents.into_iter().map(|entry| entry.card).collect()
        }
        None => node.peers.present().into_values().collect(),
    };
    let mut all = BTreeMap::new();
    for skill in cards.iter().flat_map(|card| &card.skills) {
        *all.entry(skill.id.clone()).or_default() += 1;
    }
    Ok(all)
}

/// The agents that a page shows: the one of its port, or all of the process at the port of the registry and the board.
#[derive(Clone)]
pub(super) struct ConsoleScope {
    pub(super) agents: Vec<HostedAgent>,
    /// Whether it is the page of one agent, at the port of that.
    pub(super) is_of_agent: bool,
    /// Whether a list spans several agents, some of which may be in other processes.
    pub(super) spans: bool,
    pub(super) by: Principal,
    pub(super) proof: SenderProof,
    /// What a command in a terminal needs to find the same.
    flag: String,
}

/// Where commands in a terminal look if they are not told.
const DEFAULT_HOST: &str = "127.0.0.1:8000";

/// The flag with which a command asks at this address: of the agent, or of the registry if the page is not that of one agent.
fn address_flag(is_of_agent: bool, scheme: &str, host: &str) -> String {
    match (is_of_agent, host) {
        (false, "" | DEFAULT_HOST) => String::new(),
        (false, host) => format!(" --url {scheme}://{host}"),
        (true, host) => format!(" --at {scheme}://{host}"),
    }
}

impl ConsoleScope {
    /// The scope of `request`. Fails for who is no user.
    pub(super) fn of(request: &HttpRequest, node: &NodeState, by: &Principal) -> Result<Self, Problem> {
        if !matches!(by, Principal::User(_)) {
            return Err(Problem::new(Reason::Forbidden, format!("the console is for people, not for {by}")));
        }
        let of_port = node.agent_of_port(request);
        // Requests with a host that is no name of this process are refused.
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        let scheme = if request.connection_info().scheme() == "https" { "https" } else { "http" };
        let flag = address_flag(of_port.is_some(), scheme, host.unwrap_or_default());
        let agents = match of_port {
            Some(local) => vec![local.clone()],
            None => node.agents.values().cloned().collect(),
        };
        let spans = agents.len() != 1;
        Ok(Self {
            agents,
            is_of_agent: of_port.is_some(),
            spans,
            by: by.clone(),
            proof: proof_of(request),
            flag,
        })
    }

    /// What a command in a terminal needs to find the same, such as ` --url http://127.0.0.1:8100`; empty if nothing.
    pub(super) fn flag(&self) -> &str {
        &self.flag
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
            flag: self.flag.clone(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_the_address_unless_it_is_the_default_one() {
        assert_eq!(address_flag(false, "http", DEFAULT_HOST), "");
        assert_eq!(address_flag(false, "https", "mesh.example"), " --url https://mesh.example");
        assert_eq!(address_flag(true, "http", "127.0.0.1:8101"), " --at http://127.0.0.1:8101");
    }
}
