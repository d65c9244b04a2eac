//! The node's own checks of results: JSON Schemas and commands. A check is a turn of its own; see [`TurnSubject::Check`].

use super::{
    Brain, BrainError, TurnFuture, TurnHandle, TurnRequest,
    exec::{
        ExecBrain,
        check_command::{self, CheckExit},
    },
    llm::output::OutputSchema,
};
use patterns::turn::{Prompt, ResultToCheck, TurnEnd, TurnSubject};
use protocol::{
    acceptance::{AcceptanceRule, clip_findings, json_in, json_of},
    ids::Capability,
};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio::{sync::Semaphore, task::JoinError};

/// One check.
#[derive(Debug, Clone)]
pub enum NodeCheck {
    /// The last artifact, or the message if there is none, is JSON that fits the schema.
    Schema(OutputSchema),
    /// The command gets the turn on its standard input and ends with 0.
    Command {
        exec: Box<ExecBrain>,
        /// How long it may take.
        within: Duration,
    },
}

/// The checks of an agent, each with the capabilities that it is for; all, if there are none.
#[derive(Debug, Clone, Default)]
pub struct ResultChecker {
    checks: Arc<[(Vec<Capability>, NodeCheck)]>,
}

/// What an agent demands of results before they count.
#[derive(Debug, Clone, Default)]
pub struct AgentAcceptance {
    /// The checks of the node.
    pub checker: ResultChecker,
    /// The rules that name reviewers.
    pub reviewers: Vec<AcceptanceRule>,
}

impl AgentAcceptance {
    /// All rules.
    pub fn rules(&self) -> Vec<AcceptanceRule> {
        self.checker.rules().chain(self.reviewers.iter().cloned()).collect()
    }
}

/// How long a turn without commands may take.
const SCHEMAS: Duration = Duration::from_secs(60);

impl ResultChecker {
    /// A checker with these checks, which run in this order.
    pub fn new(checks: Vec<(Vec<Capability>, NodeCheck)>) -> Self {
        Self { checks: checks.into() }
    }

    /// The rules under which its checks run.
    fn rules(&self) -> impl Iterator<Item = AcceptanceRule> + '_ {
        self.checks.iter().map(|(capabilities, _)| AcceptanceRule {
            capabilities: capabilities.clone(),
            is_checked_here: true,
            reviewer: None,
        })
    }

    fn applying(&self, capability: Option<&Capability>) -> impl Iterator<Item = &NodeCheck> {
        let applies = move |capabilities: &[Capability]| {
            capabilities.is_empty() || capability.is_some_and(|named| capabilities.contains(named))
        };
        self.checks.iter().filter(move |(capabilities, _)| applies(capabilities)).map(|(_, check)| check)
    }

    async fn check(&self, request: &TurnRequest, turn: &TurnHandle) -> Result<TurnEnd, BrainError> {
        let TurnSubject::Check(ResultToCheck { capability, schema, .. }) = &request.prompt.about else {
            return Ok(TurnEnd::Failed { reason: "there is no result to check".to_owned() });
        };
        let demanded = match schema.clone().map(OutputSchema::of_request).transpose() {
            Ok(schema) => schema.map(NodeCheck::Schema),
            Err(why) => {
                return Ok(TurnEnd::Failed { reason: format!("the request's schema can't be used: {why}") });
            }
        };
        let mut passed = Vec::new();
        for check in self.applying(capability.as_ref()).chain(&demanded) {
            match check {
                NodeCheck::Schema(schema) => {
                    let result = result_of(&request.prompt);
                    match compare(schema.clone(), result).await {
                        Ok(Ok(())) => {}
                        Ok(Err(faults)) => {
                            let reason = clip_findings(&format!("schema: {faults}"));
                            return Ok(TurnEnd::Rejected { reason });
                        }
                        Err(error) => return Ok(TurnEnd::Failed { reason: format!("schema: {error}") }),
                    }
                    passed.push("schema".to_owned());
                }
                NodeCheck::Command { exec, within } => {
                    let name = exec.command.join(" ");
                    match tokio::time::timeout(*within, check_command::run(exec, request, turn)).await {
                        Err(_) => {
                            let ms = within.as_millis();
                            return Ok(TurnEnd::Failed {
                                reason: format!("{name} did not end within {ms} ms"),
                            });
                        }
                        Ok(Ok(CheckExit::Accepted)) => passed.push(name),
                        Ok(Ok(CheckExit::Refused { code, findings })) => {
                            let findings =
                                if findings.is_empty() { "no findings".to_owned() } else { findings };
                            let reason = format!("{name} (exit code {code}): {findings}");
                            return Ok(TurnEnd::Rejected { reason: clip_findings(&reason) });
                        }
                        Ok(Err(error)) => {
                            return Ok(TurnEnd::Failed { reason: format!("{name}: {error}") });
                        }
                    }
                }
            }
        }
        Ok(TurnEnd::Done { message: Some(passed.join(", ")) })
    }
}

/// Holds a result against a schema, on a thread of its own: both can be of a size that takes seconds. It goes on when the future
/// is dropped.
async fn compare(
    schema: OutputSchema,
    result: Result<Value, String>,
) -> Result<Result<(), String>, JoinError> {
    let permit = COMPARISONS.acquire().await;
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        result.and_then(|result| schema.check_value(&result))
    })
    .await
}

/// How many results are held against schemas at the same time.
static COMPARISONS: Semaphore = Semaphore::const_new(4);

/// The JSON of a result: of the last artifact, or of the message if there is none.
fn result_of(prompt: &Prompt) -> Result<Value, String> {
    if let Some(last) = prompt.produced.last() {
        return json_of(last).ok_or_else(|| format!("the last artifact, {}, is no JSON", last.artifact_id));
    }
    let TurnSubject::Check(ResultToCheck { message, .. }) = &prompt.about else { return Ok(Value::Null) };
    message.as_deref().and_then(json_in).ok_or_else(|| "the message is no JSON".to_owned())
}

impl Brain for ResultChecker {
    fn think(&self, request: TurnRequest, turn: TurnHandle) -> TurnFuture {
        let this = self.clone();
        Box::pin(async move { this.check(&request, &turn).await })
    }

    fn turn_timeout(&self, request: &TurnRequest) -> Option<Duration> {
        let TurnSubject::Check(ResultToCheck { capability, .. }) = &request.prompt.about else { return None };
        let commands = self.applying(capability.as_ref()).map(|check| match check {
            NodeCheck::Schema(_) => Duration::ZERO,
            NodeCheck::Command { within, .. } => *within,
        });
        Some(commands.sum::<Duration>() + SCHEMAS)
    }

    fn name(&self) -> &'static str {
        "check"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brain::tests::{first_turn, turn};
    use protocol::{
        artifact::Artifact,
        ids::{AgentId, TaskId},
    };
    use serde_json::json;

    fn request(artifacts: Vec<Artifact>, schema: Option<Value>) -> TurnRequest {
        let about = TurnSubject::Check(ResultToCheck {
            task_id: TaskId::parse("t-1").unwrap(),
            description: "build it".into(),
            capability: Some(Capability::parse("build").unwrap()),
            input: None,
            doer: AgentId::parse("builder-01").unwrap(),
            message: Some("built".into()),
            schema,
        });
        let mut request = first_turn("");
        request.prompt = Prompt { produced: artifacts, ..Prompt::new(0, about) };
        request
    }

    fn command(script: &str, within: Duration) -> NodeCheck {
        let command = vec!["sh".to_owned(), "-c".to_owned(), script.to_owned()];
        NodeCheck::Command { exec: Box::new(ExecBrain::new(command)), within }
    }

    async fn end_of(check: NodeCheck, artifacts: Vec<Artifact>) -> TurnEnd {
        let checker = ResultChecker::new(vec![(Vec::new(), check)]);
        turn(&checker, request(artifacts, None)).await.1.unwrap()
    }

    #[tokio::test]
    async fn a_command_reads_the_result_and_its_exit_code_decides() {
        let minute = Duration::from_secs(60);
        let artifacts = || vec![Artifact::text("a.txt", "text/plain", "needle")];
        let accepted = end_of(command("grep -q needle", minute), artifacts()).await;
        assert!(matches!(accepted, TurnEnd::Done { .. }), "{accepted:?}");
        let refused = end_of(command("cat > /dev/null; echo no test; exit 3", minute), artifacts()).await;
        let TurnEnd::Rejected { reason } = refused else { panic!("{refused:?}") };
        assert!(reason.ends_with("(exit code 3): no test"), "{reason}");
    }

    #[tokio::test]
    async fn a_check_that_dies_hangs_or_is_missing_says_nothing_about_the_result() {
        let short = Duration::from_millis(200);
        for (check, part) in [
            (command("kill -9 $$", Duration::from_secs(60)), "signal 9"),
            (command("exit 127", Duration::from_secs(60)), "exit code 127"),
            (command("sleep 600", short), "did not end within 200 ms"),
            (
                NodeCheck::Command { exec: Box::new(ExecBrain::new(vec!["/no/such".into()])), within: short },
                "could not be started",
            ),
        ] {
            let end = end_of(check, Vec::new()).await;
            let TurnEnd::Failed { reason } = &end else { panic!("{end:?}") };
            assert!(reason.contains(part), "{reason}");
        }
    }

    #[tokio::test]
    async fn the_last_artifact_or_else_the_message_is_held_against_the_schema() {
        let schema = json!({ "type": "object", "required": ["n"] });
        let checker = ResultChecker::default();
        let fits = vec![
            Artifact::text("log", "text/plain", "…"),
            Artifact::text("n", "application/json", "{\"n\":1}"),
        ];
        for (artifacts, part) in [
            (fits, ""),
            (vec![Artifact::text("n", "application/json", "{}")], "required"),
            (vec![Artifact::text("n", "text/plain", "n")], "the last artifact, n, is no JSON"),
            (Vec::new(), "the message is no JSON"),
        ] {
            let end = turn(&checker, request(artifacts, Some(schema.clone()))).await.1.unwrap();
            let reason = if let TurnEnd::Rejected { reason } = &end { reason.as_str() } else { "" };
            assert_eq!(matches!(end, TurnEnd::Done { .. }), part.is_empty(), "{end:?}");
            assert!(reason.contains(part), "{reason}");
        }
    }
}
