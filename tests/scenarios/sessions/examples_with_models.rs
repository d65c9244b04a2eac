//! The examples in `deploy/examples` with models: written answers, recorded through the stub provider and replayed.
//! `UPDATE_CASSETTE=1 cargo test -p agent-node --test scenarios examples_with_models` records the cassettes.

use super::{
    examples::{as_person, root},
    *,
};
use crate::harness::written_answers::play_both;

const DATABASE: &str = "Which database do we use?";

/// Plays the example `name` with written answers, and with its cassette.
async fn example(name: &str, answers: &'static str, play: impl AsyncFn(&Process)) {
    let of = |file: &str| root().join("deploy/examples").join(name).join(file);
    let team = of("models.yaml");
    assert!(std::fs::read_to_string(&team).unwrap().contains("models.cassette.jsonl"));
    play_both(answers, &of("models.cassette.jsonl"), &[&team.to_string_lossy()], play).await;
}

#[tokio::test]
async fn the_round_table_of_models_speaks_asks_and_goes_back_to_the_table() {
    let answers = include_str!("../../providers/answers/round-table.md");
    example("round-table", answers, async |mesh| {
        let seats = ["planner-01", "builder-01", "critic-01"];
        let table = as_person(mesh, &[&["convene"], &seats[..], &[DATABASE]].concat());
        assert!(table.contains("[table 1] planner-01 → builder-01: How many"), "{table}");
        assert!(table.contains("[table 1] critic-01: Measure it"), "{table}");
        let graph = root().join("deploy/examples/round-table/design.yaml");
        let design = as_person(mesh, &["convene", &graph.to_string_lossy(), DATABASE]);
        for line in [
            "[draft 1] planner-01: SQLite: one file",
            "[table 1] builder-01: Postgres: we expect three",
            "[check 1] critic-01: Say what it costs, too.",
            "[table#2 1] planner-01: Postgres costs one server more",
            "[check#2 1] critic-01: Good enough: Postgres",
        ] {
            assert!(design.contains(line), "{line}: {design}");
        }
    })
    .await;
}

/// A workshop whose gates are answered as listed: what the question says, and why it is denied; approved without a reason.
async fn workshop(mesh: &Process, gates: &[(&str, &str)]) -> Value {
    let graph = root().join("deploy/examples/workshop/workshop.yaml");
    let id = as_person(mesh, &["convene", &graph.to_string_lossy(), "A page to log in", "--no-wait"]);
    let (id, lead) = (id.trim(), mesh.agent("lead-01"));
    for (asked, reason) in gates {
        eventually(asked, async || {
            let task = lead.task(id).await;
            assert!(state(&task) != "failed", "{task:#}");
            (state(&task) == "input_required" && message(&task).contains(asked)).then_some(())
        })
        .await;
        match *reason {
            "" => as_person(mesh, &["answer", id, "--approve"]),
            reason => as_person(mesh, &["answer", id, "--deny", "--reason", reason]),
        };
    }
    let task = lead.task_in(id, &["completed", "failed"]).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    task
}

#[tokio::test]
async fn the_workshop_of_models_is_approved_at_once_or_revised_and_changed() {
    let answers = include_str!("../../providers/answers/workshop.md");
    example("workshop", answers, async |mesh| {
        let done = workshop(mesh, &[("gets from the page to their account.", ""), ("Approve it.", "")]).await;
        let texts = done["artifacts"].to_string();
        for part in
            ["compare_digest", "one yellow button", "background: yellow", "There are no passwords.: met"]
        {
            assert!(texts.contains(part), "{part}: {texts}");
        }
        let result = message(&done);
        assert!(result.contains("one yellow button") && !result.contains("Approve it."), "{result}");
        let made =
            done["artifacts"].as_array().unwrap().iter().map(|made| made["artifactId"].as_str().unwrap());
        let made: Vec<&str> = made.filter(|id| !id.contains(".1.")).collect();
        for file in ["api.py", "guide.md", "page.html"] {
            assert!(made.contains(&file), "files come under their own names: {made:?}");
        }
        let done = workshop(
            mesh,
            &[
                ("gets from the page to their account.", "say it in French, too"),
                ("in English or in French", ""),
                ("Approve it.", "page.html is too bright"),
                ("of which the button is white", ""),
            ],
        )
        .await;
        assert!(done["artifacts"].to_string().contains("one white button"), "{done:#}");
        let entries =
            |more: &[&str]| as_person(mesh, &[&["space", "entries", "--space", "shop"], more].concat());
        let merged = entries(&["--kind", "memory"]);
        assert!(merged.contains("One button is enough"), "a learning of a builder is kept: {merged}");
        let waiting = entries(&["--kind", "proposal", "--status", "pending"]);
        assert!(waiting.contains("No passwords"), "a decision waits for a person: {waiting}");
        let findings = entries(&["--kind", "finding"]);
        assert!(findings.contains("Nobody is told why"), "{findings}");
    })
    .await;
}

#[tokio::test]
async fn the_bridge_of_models_posts_remembers_and_asks_the_sage() {
    let answers = include_str!("../../providers/answers/bridge.md");
    example("bridge", answers, async |mesh| {
        for (agent, order, last) in [
            ("scout-01", "go to the north gate", "held a siege with both hinges"),
            ("smith-01", "mend the bell", "cast from gate iron"),
        ] {
            as_person(mesh, &["say", &format!("@{agent}"), order]);
            eventually(last, async || {
                let url = format!("{}/a2a/tasks", mesh.agents[agent]);
                let tasks = mesh.call_as_person(Method::GET, &url, None).await.body;
                let shown = as_person(mesh, &["tasks", "show", tasks["tasks"][0]["id"].as_str()?]);
                shown.contains(last).then_some(())
            })
            .await;
        }
        let brief = as_person(mesh, &["brief", "sage-01"]);
        for part in ["[high] The north gate", "[low] The bell", "scout-01: walls 1", "smith-01: iron 1"] {
            assert!(brief.contains(part), "{part}: {brief}");
        }
        let url = format!("{}/board/spaces/default/brief?for=scout-01", mesh.url);
        let scout = mesh.call_as_person(Method::GET, &url, None).await.body;
        assert_eq!(scout["vaultEntries"], 1, "{scout:#}");
        assert!(!scout["text"].as_str().unwrap().contains("Was at the north gate"), "{scout:#}");
    })
    .await;
}

#[tokio::test]
async fn line_49_the_brainstorm_of_models_makes_candidates_of_sealed_ideas_and_judges_them() {
    let answers = include_str!("../../providers/answers/brainstorm.md");
    example("brainstorm", answers, async |mesh| {
        let graph = root().join("deploy/examples/brainstorm/brainstorm.yaml");
        let goal = "How do we save water?";
        let id = as_person(mesh, &["convene", &graph.to_string_lossy(), goal, "--no-wait"]);
        let id = id.trim();
        eventually("the gate behind the ranking", async || {
            as_person(mesh, &["inbox"]).contains("stage rank ended").then_some(())
        })
        .await;
        as_person(mesh, &["answer", id, "--approve"]);
        let done = eventually("the end", async || {
            let shown = as_person(mesh, &["tasks", "show", id]);
            ["completed", "failed"].iter().any(|state| shown.contains(state)).then_some(shown)
        })
        .await;
        for part in [
            "a lottery in which every litre",
            "Candidate 5: The lottery",
            "QUESTIONABLE",
            "KILLED",
            "Hear the leaks: 8.3",
            "the town did.",
        ] {
            assert!(done.contains(part), "{part}: {done}");
        }
    })
    .await;
}
