//! A session that works in a git repository.

use super::{examples::as_person, *};
use std::process::Command;

/// Plans, changes the first or the last line of a file, and judges. It notes what it is given.
const WORKS: &str = r#"
import json, os, sys
turn = json.loads(sys.stdin.readline())
seat, agent = turn["task"]["input"]["seat"], turn["agent"]
def tell(**line):
    print(json.dumps(line))
def notes(what):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "notes"), "a") as notes:
        notes.write(json.dumps([agent, what]) + "\n")
heard = [part["text"] for artifact in turn["task"].get("artifacts", []) for part in artifact["parts"]]
if seat["stage"] == "plan":
    first, last = "Change the first line.", "Change the last line."
    if "one file" in turn["task"]["description"]:
        first = last = "Write über.md."
    plan = [{"id": "top", "task": first, "agent": "top-01", "files": ["a.txt"]},
            {"id": "end", "task": last, "agent": "end-01"}]
    tell(type="done", message=json.dumps(plan))
elif "über.md" in turn["task"]["description"]:
    notes(heard)
    open("über.md", "a").write("by " + agent + "\n")
    tell(type="done", message="done by " + agent)
elif agent in ("top-01", "end-01"):
    assert os.path.realpath(os.getcwd()) == os.path.realpath(os.environ["MESH_WORKSPACE"])
    lines = open("a.txt").read().splitlines()
    lines[0 if agent == "top-01" else -1] = agent
    open("a.txt", "w").write("\n".join(lines) + "\n")
    tell(type="artifact", name=agent + ".md", filename=agent + ".md", text="by " + agent)
    tell(type="done", message="done by " + agent)
elif seat["stage"] == "review":
    notes(heard)
    tell(type="done", message="Approve it.")
else:
    notes(open("a.txt").read())
    tell(type="done", message="All of it is there.")
"#;

fn git(dir: &Path, args: &[&str]) -> String {
    let who = ["-c", "user.name=u", "-c", "user.email=u@example.com"];
    let output = Command::new("git").arg("-C").arg(dir).args(who).args(args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A repository, and a team that works in it.
async fn team(at: &Path) -> (std::path::PathBuf, Process) {
    let repo = at.join("repo");
    std::fs::create_dir(&repo).unwrap();
    git(&repo, &["init", "-q", "-b", "main"]);
    std::fs::write(repo.join("a.txt"), "one\ntwo\nthree\nfour\n").unwrap();
    git(&repo, &["add", "."]);
    git(&repo, &["commit", "-q", "-m", "first"]);
    file(at, "works.py", WORKS);
    let one = |name: &str| {
        let own = if name == "lead-01" { "workspaces: { shop: repo }, " } else { "" };
        format!(
            "  - {{ agent: {name}, {own}skills: [{name}-work], brain: {{ exec: [python3, works.py] }} }}\n"
        )
    };
    let team: String = ["lead-01", "top-01", "end-01", "critic-01"].map(one).concat();
    let team = file(at, "team.yaml", &format!("agents:\n{team}"));
    let graph = json!({ "workspace": "shop", "cast": { "lead": "lead-01" }, "stages": [
        { "id": "plan", "seats": ["lead"], "makes": "work-plan" },
        { "id": "assemble", "after": ["plan/*"], "seats": ["lead"] },
        { "id": "review", "after": ["assemble"], "seats": ["critic-01"], "gate": ["approve", "changes", "decline"] },
    ] });
    file(at, "session.json", &graph.to_string());
    (repo, Process::up_with(&[], &[&team.to_string_lossy()], None).await)
}

/// Begins the session, and waits for its gate.
async fn gate(at: &Path, mesh: &Process, goal: &str) -> String {
    let graph = at.join("session.json");
    let id = as_person(mesh, &["convene", &graph.to_string_lossy(), goal, "--no-wait"]).trim().to_owned();
    let task = mesh.agent("lead-01").task_in(&id, &["input_required", "failed"]).await;
    assert_eq!(state(&task), "input_required", "{task:#}");
    id
}

#[tokio::test]
async fn parts_become_a_branch_that_a_person_has_reviewed_and_main_follows_whatever_is_killed() {
    let dir = directory();
    let at = dir.path();
    let (repo, mesh) = team(at).await;
    let id = &gate(at, &mesh, "Sign both ends").await;
    let notes = || std::fs::read_to_string(at.join("notes")).unwrap_or_default();
    assert!(notes().contains("top-01\\ntwo\\nthree\\nend-01"), "the lead sees both parts: {}", notes());
    assert!(notes().contains("+end-01") && notes().contains("-one"), "the review sees the diff: {}", notes());
    assert_eq!(git(&repo, &["log", "--format=%s"]), "first", "nothing is there before it is approved");
    let mesh = mesh.restart().await;
    as_person(&mesh, &["answer", id, "--approve"]);
    let task = mesh.agent("lead-01").task_in(id, &["completed", "failed"]).await;
    let branch = format!("Branch mesh/{id} in shop; main is there, too");
    assert!(state(&task) == "completed" && message(&task).ends_with(&branch), "{task:#}");
    assert_eq!(std::fs::read_to_string(repo.join("a.txt")).unwrap(), "top-01\ntwo\nthree\nend-01\n");
    assert_eq!(std::fs::read_to_string(repo.join("top-01.md")).unwrap(), "by top-01");
    let log = git(&repo, &["log", "--format=%an: %s"]);
    assert!(log.contains("top-01: done by top-01") && log.contains("mesh: Merge plan/end"), "{log}");
    assert!(!mesh.data.join("workspaces/lead-01").join(id).exists(), "nothing is left of it");
}

#[tokio::test]
async fn parts_that_do_not_fit_are_done_again_with_both_sides_and_survive_a_crash() {
    let dir = directory();
    let at = dir.path();
    let (repo, mesh) = team(at).await;
    let id = &gate(at, &mesh, "Write one file").await;
    let notes = std::fs::read_to_string(at.join("notes")).unwrap();
    let both = ["in \\u00fcber.md", "+by top-01", "+by end-01"];
    assert!(both.iter().all(|side| notes.contains(side)), "{notes}");
    let mesh = mesh.restart().await;
    as_person(&mesh, &["answer", id, "--approve"]);
    let task = mesh.agent("lead-01").task_in(id, &["completed", "failed"]).await;
    assert!(message(&task).ends_with(&format!("Branch mesh/{id} in shop; main is there, too")), "{task:#}");
    assert_eq!(std::fs::read_to_string(repo.join("über.md")).unwrap(), "by top-01\nby end-01\n");
}

#[tokio::test]
async fn a_session_without_the_persons_token_works_in_no_repository() {
    let dir = directory();
    let team = "agents:\n  - { agent: lead-01, workspaces: { shop: . }, brain: { echo: {} } }\n";
    let team = file(dir.path(), "team.yaml", team);
    let mesh = Process::up_with(&[], &[&team.to_string_lossy()], None).await;
    let lead = mesh.agent("lead-01");
    let send = async |workspace: &str| {
        let graph = json!({ "workspace": workspace, "seats": ["lead-01"] });
        lead.post(&lead.request(session("t-1", graph))).await
    };
    let refused = send("shop").await;
    assert!(refusal_text(&refused).contains("with the person's token"), "{refused:?}");
    let unknown = send("none").await;
    assert!(refusal_text(&unknown).contains("has no repository none"), "{unknown:?}");
}
