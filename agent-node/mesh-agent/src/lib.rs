//! Brains for agents of Agent Mesh.
//!
//! A brain is a program that an agent's file names: `brain: { exec: { command: [./my-brain], worker: true } }`. It reads turns
//! from standard input and writes lines to standard output (`docs/brain-protocol.md`). This crate is that protocol:
//!
//! ```no_run
//! use mesh_agent::{Agent, ArtifactLine, Delegate, Question, Turn, TurnResult};
//!
//! fn work(turn: &Turn) -> TurnResult {
//!     turn.status("at it");
//!     let color = turn.ask(Question::new("color", "Red or blue?"))?;
//!     let plan = turn.delegate(Delegate::new("plan", "capability:plan", &color.text))?;
//!     turn.artifact(ArtifactLine::text("notes.md", format!("It is {}: {}", color.text, plan.text)));
//!     Ok(format!("done in {}", color.text))
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     Agent::new(work).run()
//! }
//! ```
//!
//! - With `worker: true` a process runs many turns, one after the other, so that connections and caches stay. Otherwise it runs
//!   one.
//! - A request (`ask`, `help`, `delegate`, `together`) returns its answer if there is one. Otherwise it returns [`End::Wait`],
//!   which `?` hands on, and the next turn runs the function again from its start: the request then returns the answer. Work
//!   that must not run again goes into [`Turn::once`].
//! - Every other error that `?` hands on fails the turn. A panic does, too, and ends the process; the next turn gets another.
//! - Standard output is for lines: print with `eprintln!`, which goes to the node's log.
//! - [`testing::TestTurn`] runs a turn without a mesh.
//!
//! The lines are the types of the crate `wire`, which the node has, too; with the feature `schema` also as JSON Schemas.
//!
//! Modules, in reading order: `brain` (what a brain implements), `agent` (one made of closures), `turn` (what it is given and can
//! report), `end` (how it ends), `content` (bytes and large texts), `process` (standard input and output), `testing`.
#![warn(missing_docs)]

mod brain;

mod agent;
mod end;
mod turn;

mod content;
mod process;
pub mod testing;

pub use agent::Agent;
pub use brain::Brain;
pub use content::{artifact_of_bytes, whole as with_content};
pub use end::{End, TurnResult};
pub use process::run;
pub use turn::Turn;
pub use wire::{
    amount::{Cost, Fraction},
    answer::{RequestResult as Answer, ResultRevision},
    artifact::{Artifact, Part, PartContent},
    entry::{EntryKind, Grade, MemoryScope},
    ids::{Address, AgentId, Capability, SpaceId, TaskId},
    line::{
        ArtifactLine, BidLine, Checkpoint, Delegate, DirectiveLine, Eta, Find, Handoff, Help, MemoryType,
        OutputLine, Post, ProposalType, Propose, Remember, Request, Say, SideMode, SignalLine,
        SupervisorVerb,
    },
    prompt::{BidCall, Brief, CallForProposals, ComputedBid, InputLine, PeerSummary, Skill, TurnPrompt},
    question::{Decision, OnTimeout, Question, QuestionKind},
    task::{PastTask, PeerQuestion, ResultToCheck, Subject, Task, TaskState, TaskTerms},
    time::WallTime,
    usage::{Budget, ModelUsage, RemainingBudget, ToolUse, Usage},
};
