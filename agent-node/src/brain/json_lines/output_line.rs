//! Checks the lines of a brain's output, which `mesh-agent` defines, and converts them to what the patterns take.

use super::BrainLine;
use mesh_agent::{ArtifactLine, OutputLine};
use patterns::{
    contract_net::bidding::BidAnswer,
    speech::{Directive, DirectiveVerb, SideMode},
    turn::{Checkpoint, Delegate, Help, Progress, TurnEnd},
};
use protocol::{
    a2a::json::base64_of_any_kind,
    answer::SeatEnd,
    artifact::{Artifact, Part, PartContent},
    bid::{Cost, Eta, Fraction},
    budget::Budget,
    ids::{Address, Capability},
    question::{OnTimeout, Question, QuestionKind},
    signal::{SignalType, described_task},
    spaces::{EntryDraft, EntryKind, EntryType, request::EntrySearch},
    time::WallTime,
    usage::{ModelUsage, ToolUse},
};
use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt::Display;

fn artifact(line: ArtifactLine) -> Result<Progress, String> {
    let (append, last_chunk) = (line.append, line.last_chunk);
    let mut artifact: Artifact = match line {
        ArtifactLine {
            artifact: Some(artifact),
            name: None,
            text: None,
            data: None,
            raw: None,
            url: None,
            ..
        } => serde_json::from_value(Value::Object(artifact)).map_err(|error| error.to_string())?,
        ArtifactLine { artifact: Some(_), .. } => {
            return Err(
                "\"artifact\" is a whole artifact; beside it only \"append\" and \"lastChunk\"".to_owned()
            );
        }
        short => artifact_of_one_part(short)?,
    };
    for part in &mut artifact.parts {
        if let PartContent::Raw(text) = &mut part.content {
            let standard = base64_of_any_kind(std::mem::take(text));
            *text = standard.map_err(|invalid| format!("\"raw\": {invalid}"))?;
        }
    }
    Ok(Progress::Artifact { artifact, append, last_chunk })
}

fn artifact_of_one_part(line: ArtifactLine) -> Result<Artifact, String> {
    let name = line.name.ok_or("missing field `name`")?;
    let contents = [
        line.text.map(PartContent::Text),
        line.data.map(PartContent::Data),
        line.raw.map(PartContent::Raw),
        line.url.map(PartContent::Url),
    ];
    let mut contents = contents.into_iter().flatten();
    let (Some(content), None) = (contents.next(), contents.next()) else {
        return Err(
            "an artifact needs exactly one of text, data, raw, url; or the full form in \"artifact\"".into(),
        );
    };
    let part = Part { media_type: line.media_type, filename: line.filename, ..Part::new(content) };
    Ok(Artifact {
        artifact_id: line.artifact_id.unwrap_or_else(|| name.clone()),
        name: Some(name),
        description: line.description,
        parts: vec![part],
        metadata: Map::new(),
        extensions: Vec::new(),
    })
}

fn signal(line: mesh_agent::SignalLine) -> Result<Progress, String> {
    let signal = valid("signal", SignalType::parse(&line.signal))?;
    if signal.is_registrys() {
        return Err(format!("\"signal\": only the registry publishes {signal}"));
    }
    if signal.is_lifecycle() {
        return Err(format!("\"signal\": only the mesh publishes {signal}, as it happens"));
    }
    let mesh_agent::SignalLine { subject, refs, .. } = line;
    if signal == SignalType::task_available() && described_task(&refs, subject.as_deref()).is_none() {
        return Err("\"subject\": an offer says what is to be done, here or in refs.description".to_owned());
    }
    Ok(Progress::Signal { signal, subject, capability: capability(line.capability)?, refs })
}

fn help(line: mesh_agent::Help) -> Result<Progress, String> {
    let to = match (capability(line.capability)?, line.to) {
        (Some(capability), None) => Address::Capability(capability),
        (None, Some(to)) => valid("to", Address::try_from(to))?,
        _ => return Err("exactly one of \"capability\" and \"to\" is needed".to_owned()),
    };
    let mesh_agent::Help { id, question, artifacts, wait, .. } = line;
    let budget = budget(line.budget)?;
    Ok(Progress::Help(Help { id, to, question, artifacts, budget, wait }))
}

fn delegate(line: mesh_agent::Delegate) -> Result<Progress, String> {
    let mesh_agent::Delegate { id, to, description, input, artifacts, wait, .. } = line;
    let (to, capability) = (valid("to", Address::try_from(to))?, capability(line.capability)?);
    let budget = budget(line.budget)?;
    Ok(Progress::Delegate(Delegate { id, to, capability, description, input, artifacts, budget, wait }))
}

fn budget(given: Option<mesh_agent::Budget>) -> Result<Budget, String> {
    let mesh_agent::Budget { tokens, cost } = given.unwrap_or_default();
    Ok(Budget { tokens, cost: known_cost("budget.cost", cost)? })
}

fn known_cost(member: &str, cost: Option<f64>) -> Result<Option<Cost>, String> {
    cost.map(|cost| valid(member, Cost::try_from(cost))).transpose()
}

fn question(line: mesh_agent::Question) -> Result<Progress, String> {
    let kind = match line.kind {
        mesh_agent::QuestionKind::Text => QuestionKind::Text,
        mesh_agent::QuestionKind::Choice => QuestionKind::Choice,
        mesh_agent::QuestionKind::Form => QuestionKind::Form,
        mesh_agent::QuestionKind::Approval => QuestionKind::Approval,
        mesh_agent::QuestionKind::Credential => QuestionKind::Credential,
    };
    let on_timeout = line.on_timeout.map(|then| match then {
        mesh_agent::OnTimeout::Continue => OnTimeout::Continue,
        mesh_agent::OnTimeout::Fail => OnTimeout::Fail,
        mesh_agent::OnTimeout::Answer(text) => OnTimeout::Answer(text),
    });
    let expires_at = line.expires_at.map(|time| valid("expiresAt", WallTime::parse(&time))).transpose()?;
    let mesh_agent::Question { id, text, schema, options, call, wait, .. } = line;
    let question =
        Question { schema, options, call, expires_at, on_timeout, wait, kind, ..Question::new(id, text) };
    question.validate()?;
    Ok(Progress::Question(question))
}

fn say(to: Vec<String>, text: String, mode: mesh_agent::SayMode) -> Progress {
    let mode = match mode {
        mesh_agent::SayMode::Dialogue => SideMode::Dialogue,
        mesh_agent::SayMode::Delegation => SideMode::Delegation,
    };
    Progress::Say { to, text, mode }
}

fn directive(line: mesh_agent::DirectiveLine) -> Progress {
    let verb = match line.verb {
        mesh_agent::SupervisorVerb::Say => DirectiveVerb::Say,
        mesh_agent::SupervisorVerb::Redirect => DirectiveVerb::Redirect,
        mesh_agent::SupervisorVerb::Amend => DirectiveVerb::Amend,
    };
    let mesh_agent::DirectiveLine { stage, seat, text, .. } = line;
    Progress::Directive(Box::new(Directive { verb, stage, seat, text: Some(text) }))
}

fn post(line: mesh_agent::Post) -> Result<Progress, String> {
    let mesh_agent::Post { content, title, severity, tags } = line;
    let severity = severity.map(|severity| known("severity", severity)).transpose()?;
    entry(EntryDraft { title, severity, tags, ..EntryDraft::new(EntryKind::Finding, content) })
}

fn propose(line: mesh_agent::Propose) -> Result<Progress, String> {
    let mesh_agent::Propose { content, entry_type, title, slug, importance, tags } = line;
    let entry_type = Some(known("entryType", entry_type)?);
    let slug = slug.map(|slug| known("slug", slug)).transpose()?;
    let importance = importance.map(|importance| known("importance", importance)).transpose()?;
    let draft = EntryDraft::new(EntryKind::Proposal, content);
    entry(EntryDraft { title, entry_type, slug, importance, tags, ..draft })
}

fn remember(line: mesh_agent::Remember) -> Result<Progress, String> {
    let mesh_agent::Remember { content, entry_type, title, importance, scope, expertise, tags } = line;
    let entry_type = entry_type.map_or(Ok(EntryType::Learning), |of| known("entryType", of))?;
    let scope = scope.map(|scope| known("scope", scope)).transpose()?;
    let importance = importance.map(|importance| known("importance", importance)).transpose()?;
    let (entry_type, draft) = (Some(entry_type), EntryDraft::new(EntryKind::Memory, content));
    entry(EntryDraft { title, entry_type, importance, scope, expertise, tags, ..draft })
}

/// The report of an entry that the space would take.
fn entry(draft: EntryDraft) -> Result<Progress, String> {
    draft.check().map_err(|problem| problem.message)?;
    Ok(Progress::Post { entry: Box::new(draft) })
}

fn find(line: mesh_agent::Find) -> Result<Progress, String> {
    let mesh_agent::Find { id, kind, tag, text, wait } = line;
    let kind = kind.map(|kind| known("kind", kind)).transpose()?;
    if (&kind, &tag, &text) == (&None, &None, &None) {
        return Err("at least one of \"kind\", \"tag\" and \"text\" is needed".to_owned());
    }
    Ok(Progress::Find { id, query: EntrySearch { kind, tag, text, of_others: None }, wait })
}

fn usage(line: mesh_agent::ModelCall) -> Result<Progress, String> {
    let cost = known_cost("cost", line.cost)?;
    let mesh_agent::ModelCall { model, input_tokens, output_tokens, .. } = line;
    let mesh_agent::ModelCall { provider, finish_reason, duration_ms, error, .. } = line;
    let call = ModelUsage {
        model,
        input_tokens,
        output_tokens,
        estimated: false,
        cost,
        provider,
        finish_reason,
        duration_ms,
        error,
    };
    call.validate()?;
    Ok(Progress::Usage(call))
}

fn tool(line: mesh_agent::ToolCall) -> Result<Progress, String> {
    let mesh_agent::ToolCall { id, name, duration_ms, error } = line;
    let call = ToolUse { id, name, duration_ms, error };
    call.validate()?;
    Ok(Progress::Tool(call))
}

fn bid(line: mesh_agent::BidLine) -> Result<BidAnswer, String> {
    let fit = line.capability_match;
    Ok(BidAnswer::Bid {
        cost: known_cost("cost", line.cost)?,
        eta: line.eta.map(eta).transpose()?,
        capability_match: fit.map(|fit| valid("match", Fraction::try_from(fit))).transpose()?,
    })
}

fn eta(eta: mesh_agent::Eta) -> Result<Eta, String> {
    let value = match eta {
        mesh_agent::Eta::Millis(millis) => Value::from(millis),
        mesh_agent::Eta::Text(text) => Value::from(text),
    };
    valid("eta", serde_json::from_value(value))
}

fn capability(name: Option<String>) -> Result<Option<Capability>, String> {
    name.map(|name| valid("capability", Capability::parse(&name))).transpose()
}

/// The value that the text of a member names. The error names the member.
fn known<T: serde::de::DeserializeOwned>(member: &str, text: impl Serialize) -> Result<T, String> {
    valid(member, serde_json::to_value(text).and_then(serde_json::from_value))
}

/// The value of a member. The error names the member.
fn valid<T>(member: &str, value: Result<T, impl Display>) -> Result<T, String> {
    value.map_err(|problem| format!("{member:?}: {problem}"))
}

impl TryFrom<OutputLine> for BrainLine {
    type Error = String;

    fn try_from(line: OutputLine) -> Result<Self, String> {
        let progress = match line {
            OutputLine::Status { message } => Progress::Status { message },
            OutputLine::Artifact(line) => artifact(*line)?,
            OutputLine::Signal(line) => signal(line)?,
            OutputLine::Help(line) => help(line)?,
            OutputLine::Delegate(line) => delegate(line)?,
            OutputLine::Question(line) => question(line)?,
            OutputLine::Post(line) => post(line)?,
            OutputLine::Propose(line) => propose(line)?,
            OutputLine::Remember(line) => remember(line)?,
            OutputLine::Find(line) => find(line)?,
            OutputLine::Checkpoint(mesh_agent::CheckpointLine { data, replace }) => {
                Progress::Checkpoint(Checkpoint { data, replace })
            }
            OutputLine::Usage(line) => usage(line)?,
            OutputLine::Tool(line) => tool(line)?,
            OutputLine::Log { message } => Progress::Log { message },
            OutputLine::Say { to, text, mode } => say(to, text, mode),
            OutputLine::Directive(line) => directive(line),
            OutputLine::Done { message, label: None } => {
                return Ok(Self::End(TurnEnd::Done { message }));
            }
            OutputLine::Done { message, label } => {
                let seat = SeatEnd { label, ..SeatEnd::default() };
                return Ok(Self::End(TurnEnd::Seat { message, seat }));
            }
            OutputLine::Pass { message } => {
                let seat = SeatEnd { passed: true, ..SeatEnd::default() };
                return Ok(Self::End(TurnEnd::Seat { message, seat }));
            }
            OutputLine::Failed { reason } => return Ok(Self::End(TurnEnd::Failed { reason })),
            OutputLine::Rejected { reason } => return Ok(Self::End(TurnEnd::Rejected { reason })),
            OutputLine::Message { text } => return Ok(Self::End(TurnEnd::Message { text })),
            OutputLine::Bid(line) => return bid(line).map(Self::Bid),
            OutputLine::NoBid { reason } => return Ok(Self::Bid(BidAnswer::NoBid { reason })),
            OutputLine::Wait {} => return Ok(Self::End(TurnEnd::Waiting)),
            OutputLine::Pause { after_ms, reason } => {
                return Ok(Self::End(TurnEnd::Pause { after_ms, reason }));
            }
        };
        Ok(Self::Progress(progress))
    }
}
