//! Hooks of calls of tools: commands that see a call before it is made, its result before the model reads it, and the answer of a
//! turn before it counts. A hook that fails or is late denies.

use super::model::ToolCall;
use crate::brain::{
    TurnHandle, TurnRequest,
    exec::{
        BrainRights, ExecBrain,
        check_command::{CommandOutput, run_once},
    },
};
use patterns::turn::TurnSubject;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

/// The most bytes of a verdict.
const MAX_VERDICT: usize = 1 << 20;
/// How much of a reason is kept, characters.
const MAX_REASON: usize = 2_000;

/// The hooks of an agent: commands that read a line of JSON and write their verdict.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolHooks {
    /// Before a call of a tool server.
    pub before: Option<Vec<String>>,
    /// After it, before the model reads the result.
    pub after: Option<Vec<String>>,
    /// When the model has answered, before the turn ends.
    pub end: Option<Vec<String>>,
    /// How long each may take.
    pub within: Duration,
    /// The environment of the commands.
    pub env: BTreeMap<String, String>,
    /// Their working directory.
    pub dir: Option<PathBuf>,
}

impl ToolHooks {
    /// The commands that are there.
    pub(crate) fn commands(&self) -> impl Iterator<Item = &Vec<String>> {
        [&self.before, &self.after, &self.end].into_iter().flatten()
    }

    pub(super) fn stages(&self) -> HookStages {
        HookStages { before: self.before.is_some(), after: self.after.is_some(), end: self.end.is_some() }
    }

    fn command_for(&self, event: &HookEvent) -> Option<&Vec<String>> {
        match event {
            HookEvent::Before { .. } => self.before.as_ref(),
            HookEvent::After { .. } => self.after.as_ref(),
            HookEvent::End { .. } => self.end.as_ref(),
        }
    }
}

/// Where an agent has hooks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct HookStages {
    pub(super) before: bool,
    pub(super) after: bool,
    pub(super) end: bool,
}

/// What a hook is asked about.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum HookEvent {
    Before { server: usize, tool: String, call: ToolCall },
    After { server: usize, tool: String, call: ToolCall, text: String, is_error: bool },
    End { text: String },
}

/// What a hook says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum HookVerdict {
    Allow,
    /// Other arguments are taken for the call.
    Arguments(Map<String, Value>),
    /// The model reads this in place of the result.
    Result(String),
    Deny(String),
}

/// A verdict as the command writes it. No output is `allow`; a member that is not known is no verdict.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct VerdictLine {
    decision: Decision,
    reason: String,
    arguments: Option<Map<String, Value>>,
    result: Option<String>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Decision {
    #[default]
    Allow,
    Deny,
}

/// Asks the hook for `event` in the turn of `request`; `name` is the name of the tool server. Returns its verdict.
pub(super) async fn ask(
    (hooks, rights): (&ToolHooks, &BrainRights),
    event: &HookEvent,
    name: &str,
    request: &TurnRequest,
    turn: &TurnHandle,
) -> HookVerdict {
    let Some(command) = hooks.command_for(event) else { return HookVerdict::Allow };
    let shown = command.join(" ");
    let mut exec = ExecBrain::new(command.clone());
    (exec.env, exec.dir) = (hooks.env.clone(), hooks.dir.clone());
    (exec.home, exec.user) = (rights.home.clone(), rights.user.clone());
    let input = format!("{}\n", line(event, name, request));
    let failed = |why: String| HookVerdict::Deny(format!("the hook {shown} {why}"));
    match tokio::time::timeout(hooks.within, run_once(&exec, None, input.as_bytes(), MAX_VERDICT, turn)).await
    {
        Err(_) => failed(format!("did not answer within {} ms", hooks.within.as_millis())),
        Ok(Err(error)) => failed(format!("failed: {error}")),
        Ok(Ok(CommandOutput { code: 0, said, .. })) => verdict(event, &said).unwrap_or_else(failed),
        Ok(Ok(CommandOutput { code, tail, .. })) => {
            failed(format!("ended with exit code {code}: {}", tail.trim()))
        }
    }
}

/// What the command reads.
fn line(event: &HookEvent, server: &str, request: &TurnRequest) -> Value {
    let mut line = match event {
        HookEvent::Before { tool, call, .. } => {
            json!({ "event": "before_tool_call", "server": server, "tool": tool, "call": call.id, "arguments": call.arguments })
        }
        HookEvent::After { tool, call, text, is_error, .. } => json!({
            "event": "after_tool_call", "server": server, "tool": tool, "call": call.id, "arguments": call.arguments,
            "result": text, "isError": is_error,
        }),
        HookEvent::End { text } => json!({ "event": "end_of_turn", "text": text }),
    };
    line["agent"] = json!(request.agent);
    line["turn"] = json!(request.prompt.turn);
    if let Some(task) = request.prompt.about.task_id() {
        line["task"] = json!(task);
    }
    if let TurnSubject::Task(task) = &request.prompt.about {
        line["description"] = json!(task.description);
    }
    line
}

/// The verdict in what a command has written; the error says what is wrong with it.
fn verdict(event: &HookEvent, said: &[u8]) -> Result<HookVerdict, String> {
    if said.trim_ascii().is_empty() {
        return Ok(HookVerdict::Allow);
    }
    if said.len() >= MAX_VERDICT {
        return Err(format!("wrote {MAX_VERDICT} bytes or more"));
    }
    // A list would be read as the members in their order.
    let line = serde_json::from_slice::<Map<String, Value>>(said);
    let line = line.and_then(|members| serde_json::from_value::<VerdictLine>(members.into()));
    let line = line.map_err(|error| format!("wrote no verdict ({error})"))?;
    let reason: String = line.reason.chars().take(MAX_REASON).collect();
    match (line.decision, line.arguments, line.result, event) {
        (Decision::Deny, None, None, _) => Ok(HookVerdict::Deny(reason)),
        (Decision::Allow, None, None, _) => Ok(HookVerdict::Allow),
        (Decision::Allow, Some(arguments), None, HookEvent::Before { .. }) => Ok(HookVerdict::Arguments(arguments)),
        (Decision::Allow, None, Some(result), HookEvent::After { .. }) => Ok(HookVerdict::Result(result)),
        _ => Err("wrote a verdict that does not fit: `arguments` are for an allowed call before it is made, `result` after it".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn before() -> HookEvent {
        let call =
            serde_json::from_value(json!({ "id": "c0_0", "name": "delete", "arguments": { "path": "a" } }))
                .unwrap();
        HookEvent::Before { server: 0, tool: "delete".into(), call }
    }

    fn after() -> HookEvent {
        let HookEvent::Before { server, tool, call } = before() else { unreachable!() };
        HookEvent::After { server, tool, call, text: "secret".into(), is_error: false }
    }

    #[test]
    fn a_verdict_allows_denies_or_replaces_what_its_stage_has() {
        let end = HookEvent::End { text: "done".into() };
        let arguments = json!({ "path": "b" }).as_object().unwrap().clone();
        for (event, said, expected) in [
            (before(), "", HookVerdict::Allow),
            (before(), " \n", HookVerdict::Allow),
            (before(), "{}", HookVerdict::Allow),
            (before(), r#"{"decision":"allow"}"#, HookVerdict::Allow),
            (before(), r#"{"decision":"deny","reason":"no"}"#, HookVerdict::Deny("no".into())),
            (before(), r#"{"arguments":{"path":"b"}}"#, HookVerdict::Arguments(arguments)),
            (after(), r#"{"result":"***"}"#, HookVerdict::Result("***".into())),
            (after(), r#"{"decision":"deny"}"#, HookVerdict::Deny(String::new())),
            (
                end.clone(),
                r#"{"decision":"deny","reason":"tests first"}"#,
                HookVerdict::Deny("tests first".into()),
            ),
        ] {
            assert_eq!(verdict(&event, said.as_bytes()), Ok(expected), "{said}");
        }
        for (event, said) in [
            (before(), "allow"),
            (before(), "[]"),
            (after(), r#"["allow"]"#),
            (before(), r#"{"decison":"deny"}"#),
            (before(), r#"{"decision":"block"}"#),
            (before(), r#"{"result":"x"}"#),
            (before(), r#"{"decision":"deny","arguments":{}}"#),
            (after(), r#"{"arguments":{}}"#),
            (end, r#"{"result":"x"}"#),
        ] {
            assert!(verdict(&event, said.as_bytes()).is_err(), "{said}");
        }
    }
}
