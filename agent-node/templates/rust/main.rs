//! Counts the words of a text. Replace `work` with what your agent does.

use mesh_agent::{Agent, ArtifactLine, Delegate, Question, Turn, TurnResult};

fn work(turn: &Turn) -> TurnResult {
    if turn.question().is_some() {
        return Ok("I count words: text.split_whitespace().".to_owned()); // another agent asks for help
    }
    let (_, mut text) = turn.task()?.description.split_once(':').unwrap_or_default();
    if text.trim().is_empty() {
        text = &turn.ask(Question::new("text", "Which text shall I count?"))?.text; // `mesh answer` answers
    }
    let text = text.trim();
    turn.status(format!("counting {} characters", text.chars().count()));
    let count = text.split_whitespace().count();
    let check = turn.delegate(Delegate::new("check", "capability:proofread", text))?; // to another agent
    let proof = check.artifacts.first().map_or(check.text.clone(), |artifact| artifact.as_text());
    let report = format!("# {count} words\n\n{proof}\n");
    turn.artifact(ArtifactLine::text("report.md", report).media_type("text/markdown"));
    Ok(format!("{count} words"))
}

fn main() -> std::process::ExitCode {
    Agent::new(work).run()
}

#[cfg(test)]
mod tests;
