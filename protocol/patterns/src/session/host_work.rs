//! Work that the host of a session does without its brain, in tasks that it gives itself: turns of people and of A2A agents that
//! are not of the mesh, and the built-in stages of a team that is made for one request.

use super::{
    discussion::StageDiscussion,
    graph::{ForeignSeat, TeamTerms},
    person::PersonTurn,
    summary::SummaryOutline,
    team::report::ItemState,
    workspace::WorkspaceWork,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The capability of these tasks. Only an agent itself can ask it for this.
pub const HOST_WORK: &str = "session.work";

/// The member of a task's input that holds the work.
pub const WORK: &str = "work";

/// What the host does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HostWork {
    /// A turn of a foreign agent's seat.
    Call(ForeignSeat),
    /// The turn of a person: a question.
    Ask(PersonTurn),
    /// Find agents, and match what the request asks for to their skills.
    Match(Box<TeamTerms>),
    /// Have the item of a plan done; the artifact of this name says which.
    Item(String),
    #[serde(rename_all = "camelCase")]
    Aggregate {
        /// The terms of the request.
        terms: Box<TeamTerms>,
        /// How the items stand.
        items: Vec<ItemState>,
        /// Whether items still ask a person, so that there will be another answer.
        is_interim: bool,
    },
    /// Work on the repository of the session.
    Workspace(WorkspaceWork),
    /// Make the summary of the session, of the words that it is given.
    Summarize(SummaryOutline),
    /// Write down what was said to all in a stage.
    Discussion(StageDiscussion),
}

impl HostWork {
    /// The work in the input of a task.
    pub fn read(input: Option<&Value>) -> Result<Self, String> {
        let work = input.and_then(|input| input.get(WORK)).ok_or("the input names no work")?;
        serde_json::from_value(work.clone()).map_err(|error| format!("{WORK}: {error}"))
    }
}
