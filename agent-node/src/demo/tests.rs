use super::*;
use crate::brain::PeerSkill;
use crate::brain::tests::ask;
use proptest::prelude::*;
use protocol::{
    coordination::thought::{About, Reply},
    ids::{AgentId, Capability},
};
use serde::Deserialize;
use serde_json::json;

/// The artifact of that name that was said last.
pub(super) fn said_artifact(said: &[Said], name: &str) -> Option<Artifact> {
    said.iter().rev().find_map(|said| match said {
        Said::Progress(Progress::Artifact { artifact, .. }) if asked::name(artifact) == name => {
            Some(artifact.clone())
        }
        Said::Progress(_) | Said::End(_) => None,
    })
}

/// How a turn ended: its message or its reason; `None` if it waits.
pub(super) fn ended(said: &[Said]) -> Option<Result<String, String>> {
    match said.last()? {
        Said::End(TurnEnd::Message { text }) => Some(Ok(text.clone())),
        Said::End(TurnEnd::Done { message }) => Some(Ok(message.clone().unwrap_or_default())),
        Said::End(TurnEnd::Failed { reason } | TurnEnd::Rejected { reason }) => Some(Err(reason.clone())),
        Said::End(TurnEnd::Waiting) | Said::Progress(_) => None,
    }
}

/// The question whose answers are `replies`, after a turn in which `said` was said.
pub(super) fn next_turn(ask: &Ask, said: &[Said], replies: Vec<Reply>) -> Ask {
    let mut next = ask.clone();
    next.prompt.turn += 1;
    next.prompt.answers = replies;
    for one in said {
        if let Said::Progress(Progress::Artifact { artifact, .. }) = one {
            protocol::artifact::merge(&mut next.prompt.produced, artifact.clone(), false);
        }
    }
    next
}

/// What `agent` answers to what was asked under `id`.
pub(super) fn reply(id: &str, agent: &str, said: &[Said]) -> Reply {
    let artifacts = said.iter().filter_map(|said| match said {
        Said::Progress(Progress::Artifact { artifact, .. }) => Some(artifact.clone()),
        Said::Progress(_) | Said::End(_) => None,
    });
    let end = ended(said).unwrap();
    let (ok, text) = (end.is_ok(), end.unwrap_or_else(|reason| reason));
    Reply {
        id: id.into(),
        ok,
        from: AgentId::parse(agent).ok(),
        text,
        artifacts: artifacts.collect(),
        task_id: None,
    }
}

pub(super) fn help(question: &str, artifacts: Vec<Artifact>) -> Ask {
    let mut ask = ask("");
    let capability = Capability::parse("code-review").ok();
    ask.prompt.about = About::Help { question: question.into(), capability, artifacts };
    ask
}

pub(super) fn with_input(description: &str, given: Value) -> Ask {
    let mut ask = ask(description);
    if let About::Task { input, .. } = &mut ask.prompt.about {
        *input = Some(given);
    }
    ask
}

/// The peers of the demo team.
pub(super) fn team() -> Vec<PeerSkill> {
    #[derive(Deserialize)]
    struct Team {
        agents: Vec<Agent>,
    }
    #[derive(Deserialize)]
    struct Agent {
        agent: AgentId,
        description: String,
        skills: Vec<protocol::card::Skill>,
    }
    let team: Team = serde_saphyr::from_str(TEAM).unwrap();
    let peers = team.agents.into_iter().map(|agent| PeerSkill {
        agent_id: agent.agent,
        description: agent.description,
        skills: agent.skills,
    });
    peers.collect()
}

#[test]
fn the_shell_takes_one_line_and_gives_lines() {
    let question = serde_json::to_string(&ask("books (title)")).unwrap();
    let mut output = Vec::new();
    turn("planner", None, question.as_bytes(), &mut output).unwrap();
    let lines: Vec<_> = output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    assert!(lines.len() > 2 && lines.iter().all(|line| crate::brain::lines::parse(line).is_ok()));

    let refused =
        |name, style, question: &str| turn(name, style, question.as_bytes(), Vec::new()).unwrap_err();
    assert!(refused("poet", None, &question).contains("there are planner, rest-builder"));
    assert!(refused("rest-builder", Some("sloppy"), &question).contains("styles thorough and quick"));
    assert!(refused("planner", None, "").contains("one line of JSON"));
    assert!(refused("planner", None, "{}").contains("missing field"));
}

#[test]
fn the_team_has_a_brain_for_everyone() {
    let team: Value = serde_saphyr::from_str(TEAM).unwrap();
    let agents = team["agents"].as_array().unwrap();
    assert_eq!(agents.len(), 5);
    for agent in agents {
        let command: Vec<_> =
            agent["brain"]["exec"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
        assert_eq!(command[..2], ["mesh", "brain"]);
        assert!(answer(command[2], command.get(4).copied(), &ask("x")).is_some(), "{command:?}");
    }
}

/// From a request through planner, builder and reviewer and back, without a mesh in between.
#[test]
fn the_whole_team_builds_what_was_asked() {
    let request = ask(
        "Build a REST API for a library: books (title, isbn, year:int) and members with name and email; members borrow books",
    );
    let planned = answer("planner", None, &request).unwrap();
    let Some(Said::Progress(Progress::Delegate { id, description, input, .. })) = planned.last() else {
        panic!("{planned:?}")
    };
    let task = with_input(description, input.clone().unwrap());
    let drafted = answer("rest-builder", Some("thorough"), &task).unwrap();
    let reviewed =
        answer("reviewer", None, &help("ok?", vec![said_artifact(&drafted, "handler.rs").unwrap()])).unwrap();
    let mended = next_turn(&task, &drafted, vec![reply("review", "reviewer-01", &reviewed)]);
    let built = answer("rest-builder", Some("thorough"), &mended).unwrap();
    let gathered = next_turn(&request, &planned, vec![reply(id, "agent-01", &built)]);
    let end = answer("planner", None, &gathered).unwrap();

    let summary = ended(&end).unwrap().unwrap();
    for part in
        ["library API is built", "books, members and borrows (thorough)", "reviewer-01 found", "all mended"]
    {
        assert!(summary.contains(part), "{summary}");
    }
    assert!(said_artifact(&end, "handler.rs").unwrap().as_text().contains("pub struct Borrow "));
    assert!(said_artifact(&end, "review.md").is_some());
}

proptest! {
    #[test]
    fn no_brain_minds_any_text(text in "\\PC{0,200}", turn in 1_u32..4, answered in any::<bool>()) {
        let mut asked = ask(&text);
        asked.prompt.turn = turn;
        asked.peers = team();
        if answered {
            asked.prompt.answers = ["review", "build-1", "handed-on:plan"].iter().map(|id| Reply {
                id: (*id).into(), ok: text.len() % 2 == 0, from: None, text: text.clone(),
                artifacts: vec![Artifact::text("review.json", "application/json", text.clone())],
                task_id: None,
            }).collect();
        }
        for name in BRAINS {
            let said = answer(name, None, &asked).unwrap();
            prop_assert!(!said.is_empty());
            prop_assert!(answer(name, None, &help(&text, vec![Artifact::text("a.rs", "text/x-rust", text.clone())])).is_some());
let given = json!({ "code": text, "resources": [text, { "name": text, "fields": [text] }] });
            prop_assert!(answer(name, None, &with_input("", given)).is_some());
        }
    }
}
