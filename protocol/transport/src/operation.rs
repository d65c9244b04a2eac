//! Operations as values: one struct an operation, from which its route, its remote client and the message to a local actor are
//! written once for all.
//!
//! A member that the path names is sent in the path; the others in the query of GET and DELETE, and in the JSON body of other
//! methods.

mod remote;
mod route;

pub use remote::RemoteService;
pub use route::OperationRoutes;

use actix::Message;
use protocol::{
    principal::{Principal, SenderProof},
    problem::{Problem, Reason},
};
use serde::{Serialize, de::DeserializeOwned};
use std::future::Future;

/// A call that one side makes and another side answers.
pub trait Operation: Serialize + DeserializeOwned + Send + 'static {
    /// What comes back.
    type Answer: Serialize + DeserializeOwned + Send + 'static;
    const INFO: OperationInfo;
}

/// How an operation is called over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationInfo {
    /// `GET`, `POST`, `PUT` or `DELETE`.
    pub method: &'static str,
    /// The path, with `{name}` for a member.
    pub path: &'static str,
    /// The status of success; 204 has no content.
    pub status: u16,
    /// Who may try; the operation itself decides.
    pub who: Who,
}

/// Who may try an operation. Everybody else is refused before the request is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Everybody,
    Agents,
}

impl OperationInfo {
    /// Reads, for everybody.
    pub const fn get(path: &'static str) -> Self {
        Self { method: "GET", path, status: 200, who: Who::Everybody }
    }

    /// Changes something, for agents.
    pub const fn agents(method: &'static str, path: &'static str) -> Self {
        Self { method, path, status: 200, who: Who::Agents }
    }

    /// With another status of success.
    #[must_use]
    pub const fn status(self, status: u16) -> Self {
        Self { status, ..self }
    }
}

impl Who {
    /// Fails with `forbidden` for a principal that may not try.
    pub fn check(self, principal: &Principal) -> Result<(), Problem> {
        match (self, principal) {
            (Self::Everybody, _) | (Self::Agents, Principal::Agent(_)) => Ok(()),
            (Self::Agents, Principal::User(_) | Principal::Service(_) | Principal::Brain(_)) => {
                Err(Problem::new(Reason::Forbidden, "only agents may do this; a user may only read"))
            }
        }
    }
}

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub principal: Principal,
    pub proof: SenderProof,
    /// On whose behalf, if that is another one.
    pub root: Option<Principal>,
}

impl Caller {
    /// An agent of this process, or one whose signature was checked.
    pub fn agent(id: &protocol::ids::AgentId) -> Self {
        Self { principal: Principal::Agent(id.clone()), proof: SenderProof::Credential, root: None }
    }
}

/// Whatever answers an operation: an actor of this process, a process behind HTTP, or a wrapper of either.
pub trait Service<O: Operation> {
    /// Performs `operation` for `by`.
    fn call(&self, by: &Caller, operation: O) -> impl Future<Output = Result<O::Answer, Problem>>;
}

/// An operation as the message to an actor.
pub struct Call<O> {
    pub by: Caller,
    pub operation: O,
}

impl<O: Operation> Message for Call<O> {
    type Result = Result<O::Answer, Problem>;
}
