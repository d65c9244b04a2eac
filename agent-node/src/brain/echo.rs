//! Says back what it is told. It does no work; it is there to try the mesh's plumbing with.

use super::{Ask, Brain, Turn};
use protocol::{
    artifact::{Artifact, Content, Part},
    coordination::thought::{About, Progress, TurnEnd},
};
use tokio::sync::mpsc;

/// The brain that says back what it is told.
#[derive(Debug, Clone, Copy, Default)]
pub struct Echo;

impl Brain for Echo {
    fn think(&self, ask: Ask, report: mpsc::Sender<Progress>) -> Turn {
        Box::pin(async move {
            let (text, input) = match ask.prompt.about {
                About::Task { description, input, .. } => (description, input),
                About::Help { question, .. } => (question, None),
                About::Signal(posted) => {
                    (posted.signal.kind.to_string(), serde_json::to_value(posted.signal).ok())
                }
            };
            let mut artifact = Artifact::text("echo", "text/plain", text);
            artifact.parts.extend(input.map(|input| Part::new(Content::Data(input))));
            let _ = report.send(Progress::Artifact { artifact, append: false, last_chunk: true }).await;
            Ok(TurnEnd::Done { message: Some("echoed what was said".into()) })
        })
    }

    fn name(&self) -> &'static str {
        "echo"
    }
}
