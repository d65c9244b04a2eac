//! Counts the words of a text, and asks for the text if there is none:
//! `brain: { exec: { command: [./word-count], worker: true } }`.

use mesh_agent::{Agent, ArtifactLine, BidLine, Cost, Question, Turn, TurnResult};
use std::process::ExitCode;

fn work(turn: &Turn) -> TurnResult {
    if turn.question().is_some() {
        return Ok("I count words: text.split_whitespace().".to_owned()); // another agent asks for help
    }
    let (_, mut text) = turn.task()?.description.split_once(':').unwrap_or_default();
    if text.trim().is_empty() {
        text = &turn.ask(Question::new("text", "Which text shall I count?"))?.text;
    }
    let count = text.split_whitespace().count();
    turn.artifact(ArtifactLine::text("report.md", format!("# {count} words\n")).media_type("text/markdown"));
    Ok(format!("{count} words"))
}

fn main() -> ExitCode {
    let mut calls = 0;
    let agent = Agent::new(work).bid(move |call| {
        calls += 1;
        let cost = call.computed.cost.get() * f64::from(calls); // the more is asked for, the more it costs
        Ok(BidLine { cost: Cost::new(cost), ..BidLine::default() })
    });
    agent.run()
}
