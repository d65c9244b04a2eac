//! A brain that returns its input, to try out a mesh.

use super::{Brain, CompletedTurn, TurnFuture, TurnHandle, TurnRequest, report_all};
use patterns::turn::{Progress, Prompt, TurnEnd, TurnSubject};
use protocol::artifact::{Artifact, Part, PartContent};

/// Returns the description or question, and the input of a task, as an artifact.
#[derive(Debug, Clone, Copy, Default)]
pub struct EchoBrain;

impl EchoBrain {
    fn echo(prompt: &Prompt) -> CompletedTurn {
        let (text, input) = match &prompt.about {
            TurnSubject::Task(task) => (task.description.clone(), task.input.clone()),
            TurnSubject::Check(result) => (result.description.clone(), result.input.clone()),
            TurnSubject::Help(asked) => (asked.question.clone(), None),
            TurnSubject::Signal(posted) => {
                (posted.signal.kind.to_string(), serde_json::to_value(&posted.signal).ok())
            }
        };
        let mut artifact = Artifact::text("echo", "text/plain", text);
        artifact.parts.extend(input.map(|input| Part::new(PartContent::Data(input))));
        let report = Progress::Artifact { artifact, append: false, last_chunk: true };
        (vec![report], Ok(TurnEnd::Done { message: Some("echoed what was said".into()) }))
    }
}

impl Brain for EchoBrain {
    fn think(&self, request: TurnRequest, turn: TurnHandle) -> TurnFuture {
        Box::pin(async move { report_all(Self::echo(&request.prompt), turn).await })
    }

    fn answer_at_once(&self, prompt: &Prompt) -> Option<CompletedTurn> {
        Some(Self::echo(prompt))
    }

    fn name(&self) -> &'static str {
        "echo"
    }
}
