//! What an agent may do with the mesh on behalf of the principal at the root of its work: what both may. The only place where this is
//! decided, for each tool of a model, each line of a brain and each brief.

use crate::{
    ids::AgentId,
    principal::{Principal, TaskRoot},
    problem::{Problem, Reason},
    signal::{self, Signal},
    spaces::{Entry, EntryState, MemoryScope, Reader, Space, SpaceVerb, may},
};

/// An agent, and the principal for whom it acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deputy {
    pub agent: AgentId,
    pub root: TaskRoot,
}

/// Something that is done with the mesh. What every principal may do is none: to give tasks to agents, to ask them, to publish.
#[derive(Debug, Clone, Copy)]
pub enum MeshOperation<'a> {
    /// Read a signal, or what it refers to.
    ReadSignal(&'a Signal),
    /// Do something in a space, with an entry if it is about one.
    InSpace(SpaceVerb, Option<&'a Entry>, &'a Space),
}

impl Deputy {
    /// Refuses what the agent may not do, and what the principal at the root may not do itself.
    ///
    /// Of signals about tasks a root that nothing proves reads none.
    ///
    /// What an agent keeps for itself is shown to nobody else by the spaces. It is decided by its cause: the work for a principal is
    /// given what that principal has caused, the person whose mesh it is, or nobody.
    pub fn may(&self, operation: MeshOperation<'_>) -> Result<(), Problem> {
        let agent = Principal::Agent(self.agent.clone());
        principal_may(&TaskRoot::agent(&self.agent).reader(), operation)?;
        let root = self.root.reader();
        if let MeshOperation::InSpace(SpaceVerb::Read, Some(entry), space) = operation
            && entry.author == agent
            && is_kept_for_itself(entry)
        {
            // The entry is the agent's; the space is everybody's who is a member.
            principal_may(&root, MeshOperation::InSpace(SpaceVerb::Read, None, space))
                .map_err(|problem| self.named(problem))?;
            return match entry.is_for(&self.root) {
                true => Ok(()),
                false => Err(may::entry_not_found(&entry.id)),
            };
        }
        if let MeshOperation::ReadSignal(signal) = operation
            && self.root.proof.is_none()
            && signal.task_id.is_some()
        {
            return Err(self.named(no_signal(signal, &self.root.principal)));
        }
        principal_may(&root, operation).map_err(|problem| self.named(problem))
    }

    /// The refusal, which names for whom the agent acts.
    fn named(&self, problem: Problem) -> Problem {
        let (agent, root) = (&self.agent, &self.root.principal);
        let message = format!("{agent} does it for {root}, who may not: {}", problem.message);
        Problem { message, ..problem }.with("root", root)
    }
}

impl TaskRoot {
    /// The principal as it reads a space itself.
    pub fn reader(&self) -> Reader {
        Reader { principal: self.principal.clone(), proof: self.sender_proof() }
    }
}

/// Whether its author alone sees it.
fn is_kept_for_itself(entry: &Entry) -> bool {
    entry.scope == Some(MemoryScope::Own) || entry.state == EntryState::Sealed
}

/// Refuses what `by` may not do by the API.
fn principal_may(by: &Reader, operation: MeshOperation<'_>) -> Result<(), Problem> {
    match operation {
        MeshOperation::InSpace(verb, entry, space) => may(by, verb, entry, space),
        MeshOperation::ReadSignal(signal) if signal::may_see(&by.principal, signal) => Ok(()),
        MeshOperation::ReadSignal(signal) => Err(no_signal(signal, &by.principal)),
    }
}

fn no_signal(signal: &Signal, by: &Principal) -> Problem {
    Problem::new(Reason::Forbidden, format!("no signal {} that {by} may see", signal.id))
}
