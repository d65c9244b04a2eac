//! Says back what it is told. It does no work; it is there to try the mesh's plumbing with.

use super::{Ask, Brain, Said, Turn, report_all};
use protocol::{
    artifact::{Artifact, Part, PartContent},
    patterns::turn::{Progress, Prompt, TurnEnd, TurnSubject},
};
use tokio::sync::mpsc;

/// The brain that says back what it is told.
#[derive(Debug, Clone, Copy, Default)]
pub struct Echo;

impl Echo {
    fn say_back(prompt: &Prompt) -> Said {
        let (text, input) = match &prompt.about {
            TurnSubject::Task { description, input, .. } => (description.clone(), input.clone()),
            TurnSubject::Help { question, .. } => (question.clone(), None),
            TurnSubject::Signal(posted) => {
                (posted.signal.kind.to_string(), serde_json::to_value(&posted.signal).ok())
            }
        };
        let mut artifact = Artifact::text("echo", "text/plain", text);
        artifact.parts.extend(input.map(|input| Part::new(PartContent::Data(input))));
        let said = Progress::Artifact { artifact, append: false, last_chunk: true };
        (vec![said], Ok(TurnEnd::Done { message: Some("echoed what was said".into()) }))
    }
}

impl Brain for Echo {
    fn think(&self, ask: Ask, report: mpsc::Sender<Progress>) -> Turn {
        Box::pin(async move { report_all(Self::say_back(&ask.prompt), report).await })
    }

    fn name(&self) -> &'static str {
        "echo"
    }
}
