//! The examples in `deploy/examples`, as their pages say.

use super::*;
use crate::harness::documentation::{blocks, shell};

/// A team of an example.
struct ExampleTeam {
    mesh: Process,
    dir: tempfile::TempDir,
}

pub(super) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

impl ExampleTeam {
    async fn start(example: &str) -> Self {
        let team = root().join(format!("deploy/examples/{example}/team.yaml"));
        let dir = directory();
        let args = ["up", "--port", "0", "--profile", "fast", &team.to_string_lossy()].map(str::to_owned);
        let mesh = Process::run(dir.path().join("data"), args.to_vec(), None).await;
        Self { mesh, dir }
    }
}

/// What a command of the person prints; it must succeed.
pub(super) fn as_person(running: &Process, args: &[&str]) -> String {
    let person = running.person();
    let (code, said, errors) = mesh(args, &person.each_ref().map(|(name, value)| (*name, value.as_str())));
    assert_eq!(code, 0, "{args:?}: {errors}");
    said
}

#[tokio::test]
async fn the_commands_of_the_page_run_as_shown() {
    let team = ExampleTeam::start("round-table").await;
    let page = include_str!("../../../docs/sessions.md");
    let person = team.mesh.person();
    let person = person.each_ref().map(|(name, value)| (*name, value.as_str()));
    let outputs: Vec<_> = blocks(page, "sh")
        .into_iter()
        .flat_map(str::lines)
        .map(|line| {
            let output = shell(root(), line, &person);
            assert!(output.status.success(), "{line}: {output:?}");
            String::from_utf8(output.stdout).unwrap()
        })
        .collect();
    assert_eq!(outputs.len(), 2, "{outputs:?}");
    let table = outputs[0].lines().collect::<Vec<_>>();
    assert_eq!(table[0], "[table 1] planner-01: SQLite: one file, nothing to run.", "{outputs:?}");
    assert_eq!(table.len(), 6, "{outputs:?}");
    assert!(outputs[1].contains("[check 1] critic-01: Say what it costs, too."), "{outputs:?}");
    for line in page.lines().filter_map(|line| line.strip_prefix("    [")) {
        assert!(outputs[1].contains(line), "{line}: {outputs:?}");
    }
}

#[tokio::test]
async fn the_workshop_asks_before_it_begins_and_does_again_what_is_to_be_changed() {
    let team = ExampleTeam::start("workshop").await;
    let person = |args: &[&str]| as_person(&team.mesh, args);
    let graph = root().join("deploy/examples/workshop/workshop.yaml");
    let id = person(&["convene", &graph.to_string_lossy(), "A page to log in", "--no-wait"]);
    let id = id.trim();
    let lead = team.mesh.agent("lead-01");
    let asked = async |what: &str| {
        eventually(what, async || {
            let task = lead.task_in(id, &["input_required"]).await;
            message(&task).contains(what).then_some(message(&task))
        })
        .await
    };
    asked("Goal: A page to log in").await;
    let shown = view(&team.mesh, "lead-01", id).await;
    assert_eq!(shown["stages"].as_array().unwrap().len(), 4, "nothing is planned yet: {shown:#}");
    person(&["answer", id, "--deny", "--reason", "say it in French, too"]);
    asked("As you said: say it in French, too").await;
    person(&["answer", id, "--approve"]);
    let review = asked("Reviewed: 3 parts, as planned.").await;
    assert!(review.contains("naming files or items"), "{review}");
    let shown = view(&team.mesh, "lead-01", id).await;
    let states = |shown: &Value| {
        let stages = shown["stages"].as_array().unwrap();
        let one = |stage: &Value| {
            format!("{} {} {}", stage["stage"], stage["state"], stage["iteration"]).replace('"', "")
        };
        stages.iter().map(one).collect::<Vec<_>>()
    };
    let expected = [
        "spec done 2",
        "plan done 1",
        "assemble done 1",
        "review gated 1",
        "plan/api done 1",
        "plan/page done 1",
        "plan/guide done 1",
    ];
    assert_eq!(states(&shown), expected, "{shown:#}");
    let doers: Vec<_> = [4, 5].map(|at| shown["stages"][at]["seats"][0].clone()).into();
    assert!(
        doers[0]["agent"].as_str().unwrap().starts_with("builder-"),
        "the contract net has filled it: {doers:?}"
    );
    assert_eq!(doers[1]["who"], "builder-02");
    person(&["answer", id, "--deny", "--reason", "page.html is too bright"]);
    let assembled = eventually("the second review", async || {
        let shown = view(&team.mesh, "lead-01", id).await;
        (shown["stages"][3]["iteration"] == 2 && shown["stages"][3]["state"] == "gated").then_some(shown)
    })
    .await;
    let expected = [
        "spec done 2",
        "plan done 1",
        "assemble done 2",
        "review gated 2",
        "plan/api done 1",
        "plan/page done 2",
        "plan/guide done 2",
    ];
    assert_eq!(states(&assembled), expected);
    person(&["answer", id, "--approve"]);
    let task = lead.task_in(id, &["completed", "failed"]).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    let result = message(&task);
    let made =
        "Files: api.py, guide.md, page.html\n\n1. Somebody can log in.: met, api.py, guide.md, page.html";
    assert!(result.starts_with("All of it:\napi by builder-") && result.contains(made), "{result}");
    let out = tempfile::tempdir().unwrap();
    person(&["tasks", "show", id, "--out", &out.path().to_string_lossy()]);
    let page = std::fs::read_to_string(out.path().join("page.html")).unwrap();
    assert_eq!(page, "page by builder-02, changed: page.html is too bright\n");
    let proposals =
        person(&["space", "entries", "--space", "shop", "--kind", "proposal", "--status", "merged"]);
    assert!(proposals.contains("How api was built"), "the curator has kept what was learnt: {proposals}");
}

#[tokio::test]
async fn line_49_the_brainstorm_runs_its_nine_stages_and_every_seat_speaks() {
    let team = ExampleTeam::start("brainstorm").await;
    let person = |args: &[&str]| as_person(&team.mesh, args);
    let graph = root().join("deploy/examples/brainstorm/brainstorm.yaml");
    let id = person(&["convene", &graph.to_string_lossy(), "How do we save water?", "--no-wait"]);
    let id = id.trim();
    let said = eventually("the gate behind the ranking", async || {
        let inbox = person(&["inbox"]);
        inbox.contains("stage rank ended").then(|| person(&["tasks", "show", id]))
    })
    .await;
    for part in [
        "Idea 3 of wild",
        "Idea 3 of contrarian",
        "Candidate 3: 16 findings in one",
        "skeptic was given",
        "pragmatist was given",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let nobody = get(&format!("{}/a2a/tasks", team.mesh.agent("thinker-01").url)).await;
    assert!(!nobody.to_string().contains("Idea"), "it is shown to the person only: {nobody}");
    person(&["answer", id, "--approve"]);
    let done = eventually("the end", async || {
        let shown = person(&["tasks", "show", id]);
        shown.contains("narrator was given ").then_some(shown)
    })
    .await;
    let speakers =
        ["cartographer", "questioner", "connector", "devil", "feasibility", "strategist", "architect"];
    for seat in speakers {
        assert!(done.contains(&format!("{seat} was given")), "{seat}: {done}");
    }
    let preset = "preset: brainstorm\ncast: { lead: thinker-01, dreamer: thinker-02, researcher: thinker-03, critic: thinker-04 }";
    let preset = file(team.dir.path(), "preset.yaml", preset);
    let id = person(&["convene", &preset.to_string_lossy(), "How do we save water?", "--no-wait"]);
    let id = id.trim();
    eventually("the gate of the preset", async || {
        person(&["inbox"]).contains("stage rank ended").then_some(())
    })
    .await;
    person(&["answer", id, "--approve"]);
    let done = eventually("the end of the preset", async || {
        let shown = person(&["tasks", "show", id]);
        shown.contains("[present 1] lead: lead was given").then_some(shown)
    })
    .await;
    assert!(done.contains("Idea 3 of dreamer") && done.contains("[review 1] researcher: "), "{done}");
}
