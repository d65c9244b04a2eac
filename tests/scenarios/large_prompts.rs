//! A large text comes to a brain by reference, and goes on as content.

use crate::harness::{Process, artifact, directory, file, message, state};
use serde_json::{Value, json};
use std::path::Path;

const HELPER: &str = include_str!("../../agent-node/templates/python/mesh_agent.py");
const NODE_HELPER: &str = include_str!("../../agent-node/templates/node/mesh-agent.mjs");

/// Reads its prompt as it comes, and hands on the artifact that another agent wrote.
const PLAIN: &str = r#"
import json, os, sys, urllib.request

line = json.loads(sys.stdin.readline())

def say(**line):
    print(json.dumps(line), flush=True)

def read(url):
    request = urllib.request.Request(url, headers={"authorization": "Bearer " + os.environ["MESH_BRAIN_TOKEN"]})
    return urllib.request.urlopen(request).read().decode()

task = line["task"]
assert len(task["description"]) < 1024, task
if not line.get("answers"):
    say(type="delegate", id="w", to="capability:write", description="write")
else:
    answer = line["answers"][0]
    written, = answer["artifacts"]
    whole = read(task["descriptionRef"]["url"])
    said = read(answer["textRef"]["url"])
    say(type="artifact", artifact=written)
    digests = [task["descriptionRef"]["sha256"], answer["textRef"]["sha256"], written["parts"][0]["metadata"]["sha256"]]
    assert sorted(digests) == sorted(line["references"]), line["references"]
    say(type="done", message=f"{len(whole)} {len(said)} {list(written['parts'][0])}")
"#;

const PYTHON: &str = "
import mesh_agent as agent

@agent.turn
def work(turn):
    answer = turn.delegate('w', 'capability:write', 'write')
    turn.artifact('copy.txt', answer.artifacts[0].text)
    return f'{len(turn.task.description)} {len(answer.text)}'

agent.run()
";

const NODE: &str = r#"
import { run } from "./mesh-agent.mjs";

export function work(turn) {
  const answer = turn.delegate("w", "capability:write", "write");
  turn.artifact("copy.txt", answer.artifacts[0].parts[0].text);
  return `${turn.task.description.length} ${answer.text.length}`;
}
run(import.meta.url, work);
"#;

const WRITER: &str = r#"
import json, sys
sys.stdin.readline()
print(json.dumps({"type": "artifact", "name": "copy.txt", "text": "w" * 100_000}))
print(json.dumps({"type": "done", "message": "m" * 40_000}))
"#;

async fn asked(dir: &Path, program: &str) -> Value {
    let path = |name: &str, text: &str| file(dir, name, text).display().to_string();
    let writer = path("writer.py", WRITER);
    let brain =
        |command: &str| format!("brain: {{ exec: {{ command: [{command}], cwd: '{}' }} }}", dir.display());
    let team = format!(
        "agents:
  - {{ agent: reader-01, open: true, {} }}
  - {{ agent: writer-01, skills: [write], {} }}
",
        brain(program),
        brain(&format!("python3, '{writer}'"))
    );
    let mesh = Process::up(&team).await;
    let description = "é".repeat(30_000);
    mesh.agent("reader-01").ask(json!({ "description": description })).await
}

#[tokio::test]
async fn a_command_reads_large_texts_by_reference_and_hands_them_on_whole() {
    let dir = directory();
    let plain = file(dir.path(), "plain.py", PLAIN);
    let task = asked(dir.path(), &format!("python3, '{}'", plain.display())).await;
    assert_eq!(state(&task), "completed", "{task:.900?}");
    assert_eq!(message(&task), "30000 40000 ['mediaType', 'metadata', 'url']");
    assert_eq!(artifact(&task, "copy.txt"), Some("w".repeat(100_000)), "nobody else can read the URL");
}

#[tokio::test]
async fn the_helpers_of_python_and_node_read_what_a_prompt_refers_to() {
    let dir = directory();
    file(dir.path(), "mesh_agent.py", HELPER);
    file(dir.path(), "mesh-agent.mjs", NODE_HELPER);
    for (program, name, code) in [("python3", "brain.py", PYTHON), ("node", "brain.mjs", NODE)] {
        let brain = file(dir.path(), name, code);
        let task = asked(dir.path(), &format!("{program}, '{}'", brain.display())).await;
        assert_eq!(message(&task), "30000 40000", "{program}: {task:.900?}");
        assert_eq!(artifact(&task, "copy.txt"), Some("w".repeat(100_000)), "{program}");
    }
}
