//! What the lines of a brain's output are to the patterns, and which of them they refuse.

use super::BrainLine;
use patterns::{
    contract_net::bidding::BidAnswer,
    speech::Directive,
    turn::{Progress, TurnEnd},
};
use protocol::{
    a2a::json::base64_of_any_kind,
    answer::SeatEnd,
    artifact::PartContent,
    bid,
    signal::{SignalType, described_task},
    spaces::{EntryDraft, EntryKind, EntryType, request::EntrySearch},
};
use wire::line::{
    ArtifactLine, BidLine, DirectiveLine, Find, OutputLine, Post, Propose, Remember, Say, SignalLine,
};

fn artifact(line: ArtifactLine) -> Result<Progress, String> {
    let (append, last_chunk) = (line.append, line.last_chunk);
    let mut artifact = line.into_artifact()?;
    for part in &mut artifact.parts {
        if let PartContent::Raw(text) = &mut part.content {
            let standard = base64_of_any_kind(std::mem::take(text));
            *text = standard.map_err(|invalid| format!("\"raw\": {invalid}"))?;
        }
    }
    Ok(Progress::Artifact { artifact, append, last_chunk })
}

fn signal(line: SignalLine) -> Result<Progress, String> {
    let SignalLine { signal, subject, capability, refs } = line;
    let signal = SignalType::parse(&signal).map_err(|problem| format!("\"signal\": {problem}"))?;
    if signal.is_registrys() {
        return Err(format!("\"signal\": only the registry publishes {signal}"));
    }
    if signal.is_lifecycle() {
        return Err(format!("\"signal\": only the mesh publishes {signal}, as it happens"));
    }
    if signal == SignalType::task_available() && described_task(&refs, subject.as_deref()).is_none() {
        return Err("\"subject\": an offer says what is to be done, here or in refs.description".to_owned());
    }
    Ok(Progress::Signal { signal, subject, capability, refs })
}

/// The report of an entry that the space would take.
fn entry(draft: EntryDraft) -> Result<Progress, String> {
    draft.check().map_err(|problem| problem.message)?;
    Ok(Progress::Post { entry: Box::new(draft) })
}

fn post(Post { content, title, severity, tags }: Post) -> Result<Progress, String> {
    entry(EntryDraft { title, severity, tags, ..EntryDraft::new(EntryKind::Finding, content) })
}

fn propose(line: Propose) -> Result<Progress, String> {
    let Propose { content, entry_type, title, slug, importance, tags } = line;
    let (entry_type, draft) = (Some(entry_type.into()), EntryDraft::new(EntryKind::Proposal, content));
    entry(EntryDraft { title, entry_type, slug, importance, tags, ..draft })
}

fn remember(line: Remember) -> Result<Progress, String> {
    let Remember { content, entry_type, title, importance, scope, expertise, files, tags } = line;
    let entry_type = Some(entry_type.map_or(EntryType::Learning, EntryType::from));
    let draft = EntryDraft::new(EntryKind::Memory, content);
    entry(EntryDraft { title, entry_type, importance, scope, expertise, files, tags, ..draft })
}

fn find(Find { id, kind, tag, text, wait }: Find) -> Result<Progress, String> {
    if (&kind, &tag, &text) == (&None, &None, &None) {
        return Err("at least one of \"kind\", \"tag\" and \"text\" is needed".to_owned());
    }
    Ok(Progress::Find { id, query: EntrySearch { kind, tag, text, ..EntrySearch::default() }, wait })
}

fn bid(BidLine { cost, eta, capability_match }: BidLine) -> Result<BidAnswer, String> {
    let eta = eta.map(bid::Eta::try_from).transpose().map_err(|problem| format!("\"eta\": {problem}"))?;
    Ok(BidAnswer::Bid { cost, eta, capability_match })
}

/// Refuses a member that a line has if the mesh writes it.
fn only_the_mesh_says(member: &str, is_said: bool) -> Result<(), String> {
    if is_said { Err(format!("unknown field `{member}`: only the mesh says it")) } else { Ok(()) }
}

impl TryFrom<OutputLine> for BrainLine {
    type Error = String;

    fn try_from(line: OutputLine) -> Result<Self, String> {
        let progress = match line {
            OutputLine::Status { message } => Progress::Status { message },
            OutputLine::Artifact(line) => artifact(*line)?,
            OutputLine::Signal(line) => signal(line)?,
            OutputLine::Help(help) => Progress::Help(help),
            OutputLine::Delegate(task) => Progress::Delegate(task),
            OutputLine::Question(question) => {
                only_the_mesh_says("askedBy", question.asked_by.is_some())?;
                only_the_mesh_says("remote", question.remote.is_some())?;
                question.validate()?;
                Progress::Question(question)
            }
            OutputLine::Post(line) => post(line)?,
            OutputLine::Propose(line) => propose(line)?,
            OutputLine::Remember(line) => remember(line)?,
            OutputLine::Find(line) => find(line)?,
            OutputLine::Checkpoint(note) => Progress::Checkpoint(note),
            OutputLine::Usage(call) => {
                only_the_mesh_says("estimated", call.estimated)?;
                call.validate()?;
                Progress::Usage(call)
            }
            OutputLine::Tool(call) => {
                call.validate()?;
                Progress::Tool(call)
            }
            OutputLine::Log { message } => Progress::Log { message },
            OutputLine::Say(Say { to, text, mode }) => Progress::Say { to, text, mode },
            OutputLine::Directive(DirectiveLine { verb, stage, seat, text }) => {
                let (verb, text) = (verb.into(), Some(text));
                Progress::Directive(Box::new(Directive { verb, stage, seat, text }))
            }
            OutputLine::Done { message, label: None } => return Ok(Self::End(TurnEnd::Done { message })),
            OutputLine::Done { message, label } => {
                let seat = SeatEnd { label, ..SeatEnd::default() };
                return Ok(Self::End(TurnEnd::Seat { message, seat }));
            }
            OutputLine::Pass { message } => {
                let seat = SeatEnd { passed: true, ..SeatEnd::default() };
                return Ok(Self::End(TurnEnd::Seat { message, seat }));
            }
            OutputLine::Failed { reason, lasting: false } => {
                return Ok(Self::End(TurnEnd::Failed { reason }));
            }
            OutputLine::Failed { reason, lasting: true } => {
                return Ok(Self::End(TurnEnd::LastingFailure { reason }));
            }
            OutputLine::Rejected { reason } => return Ok(Self::End(TurnEnd::Rejected { reason })),
            OutputLine::Message { text } => return Ok(Self::End(TurnEnd::Message { text })),
            OutputLine::Handoff(line) => return Ok(Self::End(TurnEnd::Handoff(line.into()))),
            OutputLine::Bid(line) => return bid(line).map(Self::Bid),
            OutputLine::NoBid { reason } => return Ok(Self::Bid(BidAnswer::NoBid { reason })),
            OutputLine::Wait { task: None } => return Ok(Self::End(TurnEnd::Waiting)),
            OutputLine::Wait { task: Some(task) } => return Ok(Self::End(TurnEnd::WaitingFor { task })),
            OutputLine::Pause { after_ms, reason } => {
                return Ok(Self::End(TurnEnd::Pause { after_ms, reason }));
            }
        };
        Ok(Self::Progress(progress))
    }
}
