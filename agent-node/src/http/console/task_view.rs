//! What the page of a task shows.

use super::{
    scope::ConsoleScope,
    task_commands,
    task_history::{self, TaskHistory, WantedHistory},
};
use crate::{
    http::{
        node_state::{HostedAgent, NodeState},
        routes::traces::{
            TracePart,
            collect::{MAX_DEPTH, collect_with},
        },
    },
    model_talk,
    tasks::{
        self,
        search::{self, TaskCriteria},
    },
    telemetry::{capture::Capture, names as n, span::Span},
};
use console::{
    location::ConsoleLocation,
    timeline::{QUEUED, TimelineSpan},
    views::{
        task::{TaskData, model_calls::ModelCall},
        task_line::TaskLine,
    },
};
use engine::records::TaskRow;
use patterns::contract_net::record::AwardRecord;
use protocol::{
    problem::Problem,
    task::{Task, TaskState},
    time::WallTime,
};
use serde_json::Value;
use std::collections::BTreeSet;
use store::Revision;

/// The most tasks of each agent among which parts of a task are looked for.
const MAX_PARTS: usize = 200;

/// The data of the page.
pub(super) async fn data(
    scope: &ConsoleScope,
    node: &NodeState,
    at: &ConsoleLocation,
) -> Result<TaskData, Problem> {
    let (local, row) = scope.task(&at.agent, &at.id)?;
    let shown = tasks::with_artifacts(local.store.as_ref(), &local.id, row.clone(), Revision::MAX);
    let mut task = shown.map_err(Problem::from)?.task;
    let files = local.shown_files();
    files.show_artifacts(&mut task.artifacts).await;
    let first = task.spec.contact.iter_mut().map(|contact| &mut contact.message);
    files.link(first.chain(&mut task.history).flat_map(|message| &mut message.parts));
    let conversation = row.task.conversation.clone();
    let capture = content(scope, node, &row.task);
    let TracePart { spans, missing } = collect_with(node, local, conversation, MAX_DEPTH, capture).await?;
    let TaskHistory { events, talk, mut waits } = history(scope, node, local, &row, at).await?;
    let parts = parts(scope, &row.task).await?;
    let award = award(scope, node, local, &row)?;
    let own = (local.id.to_string(), task.spec.task_id.to_string(), task.status.state);
    let known = parts.iter().map(|part| (part.agent.clone(), part.id.clone(), part.state)).chain([own]);
    let submitted = known.filter(|(.., state)| *state == TaskState::Submitted);
    let submitted = submitted.map(|(agent, task, _)| (agent, task)).collect();
    let calls = calls(&spans);
    let mut spans = mark_queued(spans.into_iter().map(timeline_span).collect(), &submitted);
    let of_task = |span: &&TimelineSpan| {
        let task_of_span = span.attributes.get(n::MESH_TASK).and_then(Value::as_str);
        span.agent == local.id.as_str() && span.kind == "conversation" && task_of_span == Some(&at.id)
    };
    let above = spans.iter().find(of_task).map(|span| span.id.clone());
    waits.iter_mut().for_each(|wait| wait.parent.clone_from(&above));
    spans.extend(waits);
    Ok(TaskData {
        agent: local.id.to_string(),
        has_ended: row.ended_at.is_some(),
        commands: task_commands::of_task(
            scope,
            node,
            local,
            &task.spec,
            (award.is_some(), !task.artifacts.is_empty()),
        ),
        award,
        talk: (talk.omitted, talk.lines),
        calls,
        spans,
        missing: missing.into_iter().map(|part| (part.agent, part.why)).collect(),
        events,
        parts,
        task,
    })
}

/// What the journal of the task says.
async fn history(
    scope: &ConsoleScope,
    node: &NodeState,
    local: &HostedAgent,
    row: &TaskRow,
    at: &ConsoleLocation,
) -> Result<TaskHistory, Problem> {
    let wanted = WantedHistory {
        at: at.clone(),
        shows_activity: tasks::activity::is_shown(&row.task, &scope.by),
        talk: model_talk::is_shown(&row.task, &scope.by, scope.proof)
            .then(|| node.telemetry.capture().in_full()),
    };
    let (local, task) = (local.clone(), row.task.clone());
    scope.read(move |_| task_history::read(local.store.as_ref(), &local.id, &task, &wanted)).await
}

/// What of the content of the work is shown: all to the person of the mesh, and nothing to others, since a prompt may hold what
/// only the agent may read. Of a sealed stage nothing is shown to anybody.
fn content(scope: &ConsoleScope, node: &NodeState, task: &Task) -> Capture {
    match model_talk::is_shown(task, &scope.by, scope.proof) {
        true => node.telemetry.capture().in_full(),
        false => Capture::default(),
    }
}

/// The award, at this agent or at the one of this process that awarded the task to it.
fn award(
    scope: &ConsoleScope,
    node: &NodeState,
    local: &HostedAgent,
    row: &TaskRow,
) -> Result<Option<(String, AwardRecord)>, Problem> {
    let of = |local: &HostedAgent, row: &TaskRow| {
        let award = tasks::award(local.store.as_ref(), &local.id, &row.task.conversation);
        let award = award.map_err(Problem::from)?.and_then(|award| serde_json::from_value(award).ok());
        Ok::<_, Problem>(award.map(|award| (local.id.to_string(), award)))
    };
    if let Some(award) = of(local, row)? {
        return Ok(Some(award));
    }
    let owner = row.task.owner.agent().and_then(|owner| node.agents.get(owner));
    let Some(owner) = owner else { return Ok(None) };
    let row = tasks::row(owner.store.as_ref(), &owner.id, &row.task.spec.task_id, &scope.by);
    row.map_err(Problem::from)?.map_or(Ok(None), |row| of(owner, &row))
}

fn timeline_span(span: Span) -> TimelineSpan {
    let kind = span.text(n::MESH_SPAN).unwrap_or_default().to_owned();
    TimelineSpan {
        id: span.span_id,
        parent: span.parent_id,
        agent: span.agent.to_string(),
        name: span.name,
        kind,
        start: span.start,
        end: span.end,
        failed: span.failed,
        attributes: span.attributes,
    }
}

/// Marks the open turns of tasks that are only submitted: they wait for a free place. `submitted` has the agents and ids of those
/// tasks.
fn mark_queued(mut spans: Vec<TimelineSpan>, submitted: &BTreeSet<(String, String)>) -> Vec<TimelineSpan> {
    let tasks = spans.iter().filter_map(|span| {
        let task = span.attributes.get(n::MESH_TASK)?.as_str()?;
        submitted.contains(&(span.agent.clone(), task.to_owned())).then(|| span.id.clone())
    });
    let waiting: BTreeSet<String> = tasks.collect();
    for span in &mut spans {
        let waits = span.parent.as_ref().is_some_and(|parent| waiting.contains(parent));
        if waits && span.kind == "think" && span.end.is_none() {
            span.kind = QUEUED.to_owned();
            span.name = "waits for a free place".to_owned();
        }
    }
    spans
}

/// The turns of brains, and their calls of models and tools.
fn calls(spans: &[Span]) -> Vec<ModelCall> {
    let mut calls: Vec<(WallTime, ModelCall)> = spans.iter().filter_map(call).collect();
    calls.sort_by_key(|(start, _)| *start);
    calls.into_iter().map(|(_, call)| call).collect()
}

fn call(span: &Span) -> Option<(WallTime, ModelCall)> {
    let (kind, name) = match span.text(n::MESH_SPAN)? {
        "think" => (
            "turn",
            span.attributes
                .get(n::MESH_TURN)
                .map_or_else(|| span.name.clone(), |turn| format!("turn {turn}")),
        ),
        "chat" => ("model", span.text(n::GEN_AI_MODEL).unwrap_or(&span.name).to_owned()),
        "tool" => ("tool", span.text(n::GEN_AI_TOOL).unwrap_or(&span.name).to_owned()),
        _ => return None,
    };
    let number = |name: &str| span.attributes.get(name).and_then(Value::as_u64);
    let text = |name: &str| {
        let text = span.text(name)?;
        Some(serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)))
    };
    let call = ModelCall {
        id: span.span_id.clone(),
        agent: span.agent.to_string(),
        kind,
        name,
        input_tokens: number(n::GEN_AI_INPUT_TOKENS),
        output_tokens: number(n::GEN_AI_OUTPUT_TOKENS),
        cost: span.attributes.get(n::MESH_USAGE_COST).and_then(Value::as_f64),
        took: span.end.map(|end| span.start.until(end)),
        failed: span.failed.clone(),
        input: text(n::LANGFUSE_INPUT),
        output: text(n::LANGFUSE_OUTPUT),
    };
    Some((span.start, call))
}

/// The tasks of the agents of the page that are parts of `task`.
async fn parts(scope: &ConsoleScope, task: &Task) -> Result<Vec<TaskLine>, Problem> {
    let id = task.spec.task_id.clone();
    let mut parts = scope
        .read(move |scope| {
            let mut parts = Vec::new();
            for local in &scope.agents {
                let viewer = (&scope.by, scope.proof);
                let all = search::list(
                    local.store.as_ref(),
                    &local.id,
                    viewer,
                    &TaskCriteria::default(),
                    MAX_PARTS,
                )?;
                let of_task = all.iter().filter(|part| part.spec.parent.as_ref() == Some(&id));
                parts.extend(of_task.map(|part| TaskLine::of(&local.id, part)));
            }
            Ok(parts)
        })
        .await?;
    parts.sort_by_key(|part| part.created);
    Ok(parts)
}
