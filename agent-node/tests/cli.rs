//! The `mesh` command against a server that says what a mesh would: exit codes, JSON, and what is said when it goes wrong.
#![expect(clippy::unwrap_used, reason = "a test stops where something is not as it must be")]

#[path = "cli/stub.rs"]
mod stub;

use serde_json::Value;
use std::{
    io::Read,
    process::{Command, Output, Stdio},
};

fn mesh(url: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mesh"));
    command.args(arguments).env("MESH_URL", url).env_remove("RUST_LOG").stdin(Stdio::null());
    command.output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn ask_prints_the_artifact_and_nothing_else() {
    let url = stub::start();
    let output = mesh(&url, &["ask", "build it", "--task-id", "done"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "fn main() {}\n"), "{}", stderr(&output));
    assert_eq!(stderr(&output), "", "progress is for terminals");

    let output = mesh(&url, &["ask", "build it", "--task-id", "done", "--verbose"]);
    for part in ["task done at planner-01", "working: at it", "artifact main.rs", "completed"] {
        assert!(stderr(&output).contains(part), "{part}: {}", stderr(&output));
    }
    let output = mesh(&url, &["ask", "build it", "--task-id", "done", "--json"]);
    let task: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED");
}

#[test]
fn ask_prints_what_was_said_where_nothing_was_made() {
    let output = mesh(&stub::start(), &["ask", "which colour?", "--task-id", "told"]);
    let said = (code(&output), stdout(&output), stderr(&output));
    assert_eq!(said, (0, "blue,\n  or green\n".to_owned(), String::new()));
    // There is nothing to write to a directory, either.
    let dir = tempfile::tempdir().unwrap();
    let out = ["--out", dir.path().to_str().unwrap()];
    let output = mesh(&stub::start(), &[&["ask", "which colour?", "--task-id", "told"], &out[..]].concat());
    assert_eq!((code(&output), stdout(&output), stderr(&output)), said);
}

#[test]
fn ask_writes_artifacts_below_the_directory_only() {
    let (url, dir) = (stub::start(), tempfile::tempdir().unwrap());
    let out = dir.path().join("out");
    let ask = |more: &[&str]| {
        let args = ["ask", "x", "--task-id", "escaping", "--out", out.to_str().unwrap()];
        mesh(&url, &[&args, more].concat())
    };
    let text = |path: &str| std::fs::read_to_string(out.join(path)).unwrap();
    let output = ask(&[]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let written = ["evil.txt", "1-evil.txt", "_git/config", "link/a.txt"];
    assert_eq!(written.map(text), ["gotcha", "again", "run", "linked"]);
    assert!(!dir.path().join("evil.txt").exists() && !out.join(".git").exists());

    std::fs::write(out.join("evil.txt"), "mine").unwrap();
    let output = ask(&[]);
    assert!(code(&output) == 1 && stderr(&output).contains("--force"), "{}", stderr(&output));
    assert_eq!(text("evil.txt"), "mine");
    assert_eq!(code(&ask(&["--force"])), 0);
    assert_eq!(text("evil.txt"), "gotcha");

    std::fs::remove_dir_all(out.join("link")).unwrap();
    std::os::unix::fs::symlink(dir.path(), out.join("link")).unwrap();
    let output = ask(&["--force"]);
    assert!(code(&output) == 1 && stderr(&output).contains("is a link"), "{}", stderr(&output));
    assert!(!dir.path().join("a.txt").exists());
}

#[test]
fn a_tasks_end_is_the_exit_code() {
    let url = stub::start();
    for (task, expected, part) in [
        ("failed", 1, "task failed failed: no bids"),
        ("canceled", 3, "task canceled canceled"),
        ("rejected", 3, "rejected"),
        ("asking", 7, "task asking asks: which colour?; answer with `mesh answer asking TEXT --url http"),
        ("endless", 4, "`mesh tasks watch endless --url http"),
        ("refused", 6, "no agent planner-01 here (agent_not_found)"),
    ] {
        // Only the endless task runs into its time-out, however slow the machine is.
        let timeout = if task == "endless" { "300ms" } else { "5min" };
        let output = mesh(&url, &["ask", "x", "--task-id", task, "--timeout", timeout]);
        assert_eq!(code(&output), expected, "{task}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{task}: {}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1, "{task}: {}", stderr(&output));
    }
}

#[test]
fn a_command_that_is_named_can_be_typed_as_it_stands_and_tells_no_password() {
    let url = stub::start();
    let with_password = url.replace("http://", "http://me:s3cret@");
    // `;` ends a command, and the path is the same without it.
    let odd = format!("{url}/a;b/..");
    for (from, expected) in
        [(&with_password, format!("--url {url}`")), (&odd, format!("--url '{url}/a;b/..'`"))]
    {
        for (task, timeout) in [("endless", "300ms"), ("asking", "5min")] {
            let output = mesh(from, &["ask", "x", "--task-id", task, "--timeout", timeout]);
            assert!(stderr(&output).contains(&expected), "{from}: {}", stderr(&output));
            assert!(!stderr(&output).contains("s3cret"), "{from}: {}", stderr(&output));
        }
    }
    let nobody = "http://me:s3cret@127.0.0.1:1";
    for arguments in [&["ls"][..], &["tasks", "--at", nobody], &["board", "tail"], &["health"], &["--help"]] {
        let output = mesh(nobody, arguments);
        let said = format!("{}{}", stdout(&output), stderr(&output));
        assert!(said.contains("http://127.0.0.1:") && !said.contains("s3cret"), "{arguments:?}: {said}");
    }
    let output = mesh(&with_password, &["health", "--json"]);
    assert!(!stdout(&output).contains("s3cret"), "{}", stdout(&output));
}

#[test]
fn a_broken_stream_is_taken_up_where_it_broke() {
    let output = mesh(&stub::start(), &["ask", "x", "--task-id", "broken", "--verbose"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(stderr(&output).matches("working: at it").count(), 1, "{}", stderr(&output));
}

#[test]
fn nobody_there_is_said_with_the_remedy() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    for arguments in [&["ls"][..], &["ask", "x"], &["tasks"], &["board", "tail"], &["dlq"], &["health"]] {
        let output = mesh(&url, arguments);
        assert_eq!(code(&output), 5, "{arguments:?}: {}", stderr(&output));
        let said = format!(
            "mesh: nothing listens at {url}; `mesh up` starts a whole mesh; of one in several processes, `mesh registry`, \
             `mesh blackboard` or `mesh node FILE` starts the one that is missing\n"
        );
        assert_eq!(stderr(&output), said, "{arguments:?}");
    }
}

#[test]
fn a_missing_token_and_a_mesh_that_cannot_have_its_name_are_named_with_their_flag() {
    let output = mesh("http://127.0.0.1:1", &["ls", "--token", "/no/such-token"]);
    assert_eq!(code(&output), 77, "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("/no/such-token") && said.contains("--token or MESH_TOKEN_FILE"), "{said}");
    assert!(!said.contains("--name"), "{said}");
    for arguments in [&["up", "--name", "a/b"][..], &["token", "--name", "a/b"], &["reset", "--name", "a/b"]]
    {
        let output = mesh("http://127.0.0.1:1", arguments);
        assert_eq!(code(&output), 2, "{arguments:?}: {}", stderr(&output));
        let said = stderr(&output);
        assert!(said.contains("--name") && said.contains("the name of a mesh has 1 to 64"), "{said}");
    }
}

#[test]
fn ls_and_list_are_the_same_verb() {
    let url = stub::start();
    for (one, other) in [
        (&["ls"][..], &["list"][..]),
        (&["tasks", "ls"], &["tasks", "list"]),
        (&["dlq", "ls"], &["dlq", "list"]),
    ] {
        let (one, other) = (mesh(&url, one), mesh(&url, other));
        assert_eq!((code(&one), stdout(&one)), (code(&other), stdout(&other)), "{}", stderr(&other));
        assert_ne!(code(&one), 2, "{}", stderr(&one));
    }
}

#[test]
fn a_list_that_nobody_would_give_is_not_taken_for_an_empty_one() {
    let output = mesh(&stub::start(), &["tasks", "--limit", "13"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (6, ""), "{}", stderr(&output));
    assert_eq!(stderr(&output), "mesh: too often (rate_limited)\n");
}

#[test]
fn reading_verbs_speak_json() {
    let url = stub::start();
    for (arguments, pointer) in [
        (&["ls", "--json"][..], "/agents/0/card/agentId"),
        (&["card", "planner-01"], "/agentId"),
        (&["tasks", "--json"], "/tasks/0/task/id"),
        (&["tasks", "show", "done", "--json"], "/id"),
        (&["tasks", "cancel", "done", "--json"], "/id"),
        (&["tasks", "answer", "done", "blue", "--json"], "/id"),
        (&["dlq", "ls", "--json"], "/deadLetters/0/messageId"),
        (&["dlq", "show", "m-1"], "/messageId"),
        (&["award", "explain", "done", "--json"], "/award/task"),
        (&["board", "tail", "--no-follow", "--json"], "/revision"),
        (&["health", "--json"], "/places/0/name"),
        (&["validate", "--schema"], "/anyOf/0/properties/agent"),
    ] {
        let output = mesh(&url, arguments);
        assert_eq!(code(&output), 0, "{arguments:?}: {}", stderr(&output));
        let json: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", stdout(&output)));
        assert!(json.pointer(pointer).is_some_and(|value| !value.is_null()), "{arguments:?}: {json}");
    }
}

#[test]
fn tables_are_for_people_and_hold_nothing_that_steers_a_terminal() {
    let url = stub::start();
    for (arguments, parts) in [
        (&["ls"][..], &["AGENT", "planner-01", "alive", "plan"][..]),
        (&["tasks"], &["TASK", "done", "completed", "planner-01"]),
        (&["tasks", "show", "done"], &["state", "completed", "fn main() {}"]),
        (&["dlq"], &["MESSAGE", "m-1", "expired", "gone"]),
        (&["board", "tail", "--no-follow"], &["task.complete", "task=done"]),
    ] {
        let output = mesh(&url, arguments);
        assert_eq!(code(&output), 0, "{arguments:?}: {}", stderr(&output));
        for part in parts {
            assert!(stdout(&output).contains(part), "{arguments:?}: {part}: {}", stdout(&output));
        }
        assert!(!stdout(&output).contains('\x1b'), "{arguments:?}: {:?}", stdout(&output));
    }
}

#[test]
fn what_is_not_there_is_named() {
    let url = stub::start();
    for (arguments, part) in [
        (&["tasks", "show", "nope"][..], "no agent knows a task nope"),
        (&["card", "planner-02"], "did you mean planner-01?"),
        (&["dlq", "redrive", "nope"], "no dead letter nope"),
    ] {
        let output = mesh(&url, arguments);
        assert_eq!(code(&output), 6, "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn what_is_counted_is_one_or_several() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("team.yaml");
    let agent = |id: &str| format!("  - {{ agent: {id}, skills: [echo], brain: {{ echo: {{}} }} }}\n");
    for (agents, said) in
        [(agent("a"), "valid: 1 agent: a\n"), (agent("a") + &agent("b"), "valid: 2 agents: a, b\n")]
    {
        std::fs::write(&file, format!("agents:\n{agents}")).unwrap();
        let output = mesh("http://127.0.0.1:1", &["validate", file.to_str().unwrap()]);
        assert_eq!(stdout(&output), said, "{}", stderr(&output));
    }
}

#[test]
fn a_wrong_command_line_or_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("team.yaml");
    std::fs::write(&file, "agent: a\nbrian: {echo: {}}\n").unwrap();
    let name = file.to_str().unwrap();
    for (arguments, expected, part) in [
        (&["aks"][..], 2, "unrecognized subcommand 'aks'"),
        (&["ls", "--url", "nowhere"], 2, "is no URL"),
        (&["ask", "x", "--input", "{"], 2, "--input is no JSON"),
        (&["ask", "x", "--timeout", "soon"], 2, "5min"),
        (&["ask", "x", "--task-id", "../x"], 2, "a task id must match"),
        (&["tasks", "--limit", "0"], 2, "0 is not in 1..=1000"),
        (&["tasks", "--limit", "1001"], 2, "1001 is not in 1..=1000"),
        (&["node", name, "--url", "http://127.0.0.1:1"], 78, "did you mean `brain`?"),
        (&["join", "http://127.0.0.1:9", "--url", "http://127.0.0.1:1"], 6, "the card at http://127.0.0.1:9"),
        (
            &["--url=http://127.0.0.1:1", "blackboard"],
            2,
            "`mesh blackboard` takes no --url: --listen and --port",
        ),
        (&["validate", "/no/such.yaml"], 78, "/no/such.yaml: cannot be read"),
        (&["validate", name], 78, "team.yaml:2: brian: unknown key; did you mean `brain`?"),
        (&["up", name], 78, "did you mean `brain`?"),
    ] {
        let output = mesh("http://127.0.0.1:1", arguments);
        assert_eq!(code(&output), expected, "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{arguments:?}: {}", stderr(&output));
    }
}

/// However its URL is misread, and wherever it was said.
#[test]
fn a_password_in_a_url_that_makes_no_sense_is_not_repeated() {
    let odd = [
        ("http://me:s3cret@host:99999", "http://host:99999"),
        ("me:s3cret@host:8000", "\"host:8000\" is no http:// URL"),
        ("s3cret@host:8000", "\"host:8000\" is no URL"),
        ("http://me:s3#cret@host:8000", "\"http://\" is no URL"),
        ("http://me:#s3cret@host:8000", "\"http://me:\" goes on with a query or a fragment"),
    ];
    for (url, expected) in odd {
        let is_told = |output: &Output, wanted: &str| {
            let said = format!("{}{}", stdout(output), stderr(output));
            assert!(said.contains(wanted) && !said.contains("cret"), "{url}: {said}");
        };
        is_told(&mesh(url, &["ls"]), expected);
        for flag in ["--url", "--at", "--registry", "--board"] {
            let verb: &[&str] =
                if flag == "--registry" || flag == "--board" { &["node", "x.yaml"] } else { &["tasks"] };
            let said = format!("{flag}={url}");
            is_told(&mesh("http://127.0.0.1:1", &[verb, &[flag, url]].concat()), expected);
            is_told(&mesh("http://127.0.0.1:1", &[verb, &[&said]].concat()), expected);
        }
    }
    let whole = "http://me:s3cret@127.0.0.1:1";
    let verbs: [&[&str]; 6] = [
        &["ls", whole],
        &["join", whole],
        &["node", "--help"],
        &["join", "--help"],
        &["registry", "--help"],
        &["up", "--help"],
    ];
    for words in verbs {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mesh"));
        let output =
            command.args(words).env("MESH_REGISTRY", whole).env("MESH_BOARD", whole).output().unwrap();
        let said = format!("{}{}", stdout(&output), stderr(&output));
        assert!(said.len() > 10 && !said.contains("s3cret"), "{words:?}: {said}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_mesh"))
        .args(["board", "tail"])
        .env("MESH_URL", stub::start())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 1];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), stderr(&output).as_str()), (0, ""));
}
