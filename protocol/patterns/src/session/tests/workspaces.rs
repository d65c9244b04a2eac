//! Sessions that work in a repository.

use super::*;
use crate::session::{
    host_work::HostWork,
    workspace::{WorkspaceOutcome, WorkspaceWork},
};
use protocol::artifact::{Part, PartContent};

/// The work of the host that is open.
fn work(table: &Table) -> (usize, WorkspaceWork) {
    let found = table.open.iter().enumerate().find_map(|(at, turn)| match &turn.to {
        TurnDoer::Host(HostWork::Workspace(work)) => Some((at, work.clone())),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("{:?}", table.turns()))
}

fn outcome(table: &mut Table, outcome: &WorkspaceOutcome) {
    let (at, _) = work(table);
    let part = Part::new(PartContent::Data(json!(outcome)));
    let artifact = Artifact { parts: vec![part], ..Artifact::text("workspace", "application/json", "") };
    table.speaks(at, vec![artifact], "", SeatEnd::default());
}

fn commits(table: &mut Table, turn: &str, commit: &str) {
    let at =
        table.open.iter().position(|open| open.id == turn).unwrap_or_else(|| panic!("{:?}", table.turns()));
    let mut named = Artifact::text("commit", "text/plain", format!("{commit}\n{commit}.txt"));
    named.metadata.insert(names::SESSION.to_owned(), json!({ "commit": commit }));
    table.speaks(at, vec![named], turn, SeatEnd::default());
}

fn base(table: &Table, turn: &str) -> String {
    let turn =
        table.open.iter().find(|open| open.id == turn).unwrap_or_else(|| panic!("{:?}", table.turns()));
    turn.input["seat"]["workspace"]["base"].as_str().unwrap().to_owned()
}

fn integrated(commit: &str) -> WorkspaceOutcome {
    WorkspaceOutcome::Integrated { commit: commit.into(), diff: format!("diff to {commit}") }
}

/// A workshop in a repository, with two items that run.
fn workshop() -> Table {
    let mut table = Table::new(json!({
        "workspace": "shop",
        "stages": [
            { "id": "plan", "seats": ["lead"], "makes": "work-plan" },
            { "id": "assemble", "after": ["plan/*"], "seats": ["lead"] },
            { "id": "review", "after": ["assemble"], "seats": ["critic"], "gate": ["approve", "changes"] },
        ],
    }));
    assert_eq!(work(&table).1, WorkspaceWork::Open { name: "shop".into() });
    assert_eq!(table.open.len(), 1, "nothing begins before the repository is there");
    let opened = WorkspaceOutcome::Opened {
        source: "/data/s-1".into(),
        key: "k".into(),
        base: "base".into(),
        branch: Some("main".into()),
    };
    outcome(&mut table, &opened);
    assert_eq!(table.open[0].input["seat"]["workspace"]["commits"], json!(false), "a plan changes nothing");
    table.done(
        &json!([
            { "id": "a", "task": "a", "agent": "a-01" },
            { "id": "b", "task": "b", "agent": "b-01" },
        ])
        .to_string(),
    );
    assert_eq!(base(&table, "plan/a.1.a-01.1"), "base");
    table
}

fn parts(work: &WorkspaceWork) -> Vec<(String, String, Option<String>)> {
    match work {
        WorkspaceWork::Integrate { parts, .. } | WorkspaceWork::Publish { parts, .. } => {
            parts.iter().map(|part| (part.stage.clone(), part.commit.clone(), part.favor.clone())).collect()
        }
        WorkspaceWork::Open { .. } => panic!("{work:?}"),
    }
}

fn part(stage: &str, commit: &str) -> (String, String, Option<String>) {
    (stage.to_owned(), commit.to_owned(), None)
}

#[test]
fn parts_are_merged_in_the_order_of_the_plan_and_the_branch_ends_the_session() {
    let mut table = workshop();
    commits(&mut table, "plan/b.1.b-01.1", "two");
    commits(&mut table, "plan/a.1.a-01.1", "one");
    assert_eq!(parts(&work(&table).1), [part("plan/a", "one"), part("plan/b", "two")], "whoever was first");
    assert_eq!(table.open.len(), 1, "the assembly waits");
    outcome(&mut table, &integrated("both"));
    assert_eq!(base(&table, "assemble.1.lead.1"), "both");
    assert!(news(&table).contains(&"diff to both".to_owned()));
    commits(&mut table, "assemble.1.lead.1", "whole");
    let merged = [part("plan/a", "one"), part("plan/b", "two"), part("assemble", "whole")];
    assert_eq!(parts(&work(&table).1), merged);
    outcome(&mut table, &integrated("whole"));
    assert_eq!(
        table.open[0].input["seat"]["workspace"]["commits"],
        json!(false),
        "who judges changes nothing"
    );
    assert!(news(&table).contains(&"diff to whole".to_owned()), "the review sees the diff");
    table.done("Approve it.");
    table.decides(Decision::Approve, None);
    let WorkspaceWork::Publish { is_approved, branch, .. } = work(&table).1 else { panic!() };
    assert_eq!(
        (is_approved, branch.as_deref(), parts(&work(&table).1)),
        (true, Some("main"), merged.to_vec())
    );
    outcome(
        &mut table,
        &WorkspaceOutcome::Published { text: "Branch mesh/s-1 in shop; main is there, too".into() },
    );
    let (state, message) = table.ended();
    assert_eq!(state, TaskState::Completed);
    assert!(message.ends_with("Branch mesh/s-1 in shop; main is there, too"), "{message}");
    assert!(message.starts_with("assemble.1.lead.1"), "{message}");
}

#[test]
fn a_part_that_does_not_fit_goes_back_to_its_item_and_then_to_a_person() {
    let conflict = || WorkspaceOutcome::Conflict {
        stage: "plan/b".into(),
        head: "one".into(),
        files: vec!["x.txt".into()],
        ours: "+ONE".into(),
        theirs: "+TWO".into(),
    };
    let second = || {
        let mut table = workshop();
        commits(&mut table, "plan/a.1.a-01.1", "one");
        commits(&mut table, "plan/b.1.b-01.1", "two");
        outcome(&mut table, &conflict());
        assert_eq!(table.turns(), ["plan/b.2.b-01.1"], "the other part stays");
        assert_eq!(base(&table, "plan/b.2.b-01.1"), "one", "it begins on top of the others");
        let told = news(&table).join("\n");
        assert!(told.contains("+ONE") && told.contains("+TWO") && told.contains("x.txt"), "{told}");
        commits(&mut table, "plan/b.2.b-01.1", "two again");
        assert_eq!(parts(&work(&table).1), [part("plan/a", "one"), part("plan/b", "two again")]);
        outcome(&mut table, &conflict());
        assert_eq!(table.asked[0].options, ["retry", "plan/b", "others"]);
        table
    };
    let answered = |ok: bool, text: &str| {
        let mut table = second();
        let question = table.asked.remove(0);
        let result = RequestResult { id: question.id, ok, text: text.to_owned(), ..Default::default() };
        table.run(|session, cx| session.turn_ended(cx, result));
        table
    };
    for (answer, favor) in [("plan/b", "theirs"), ("others", "ours")] {
        let parts = parts(&work(&answered(true, answer)).1);
        assert_eq!(parts[1].2.as_deref(), Some(favor));
    }
    assert_eq!(answered(true, "retry").turns(), ["plan/b.3.b-01.1"]);
    let unanswered = answered(false, "nobody has answered");
    assert!(unanswered.view()["stages"][1]["reason"].as_str().unwrap().contains("nobody has said"));
}

#[test]
fn a_record_with_numbers_as_keys_is_read_with_its_pattern() {
    let recorded = json!({
        "stages": [{ "state": "done", "commits": { "0": "one", "12": "two" } }],
        "workspace": { "source": "/data/s-1", "conflicts": { "3": 1 }, "favor": { "3": "theirs" } },
    });
    let session: Session = serde_json::from_value(recorded).unwrap();
    assert_eq!(session.stages[0].commits[&12], "two");
    let read = stored_and_read(&session);
    assert_eq!(read, session);
    let written = json!(read);
    assert_eq!(written["stages"][0]["commits"], json!({ "0": "one", "12": "two" }));
    assert_eq!(written["workspace"]["favor"], json!({ "3": "theirs" }));
    let damaged: Result<Session, _> =
        serde_json::from_value(json!({ "stages": [{ "commits": { "x": "one" } }] }));
    assert!(damaged.is_err());
}

#[test]
fn a_repository_that_is_not_there_fails_the_session_and_one_that_is_declined_keeps_its_branch() {
    let mut table = Table::new(json!({ "workspace": "shop", "seats": ["a"] }));
    let (_, open) = work(&table);
    assert_eq!(open, WorkspaceWork::Open { name: "shop".into() });
    table.ends(false, "git is not installed", Vec::new());
    assert_eq!(table.ended(), (TaskState::Failed, "workspace shop: git is not installed"));
    let mut table = workshop();
    commits(&mut table, "plan/a.1.a-01.1", "one");
    table.directs(json!({ "verb": "stop", "text": "enough" })).unwrap();
    let WorkspaceWork::Publish { is_approved, .. } = work(&table).1 else { panic!() };
    assert!(!is_approved);
    outcome(&mut table, &WorkspaceOutcome::Published { text: "Branch mesh/s-1 in shop".into() });
    assert_eq!(table.ended(), (TaskState::Failed, "stopped by a person: enough\n\nBranch mesh/s-1 in shop"));
}
