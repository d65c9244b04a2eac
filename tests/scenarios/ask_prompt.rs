//! `mesh ask` on a terminal puts the questions of its task to the person there (DESIGN §10).

use crate::harness::{DEADLINE, Process, artifact, call, directory, eventually, mesh, state};
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    io::{Read as _, Write as _},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Instant,
};
use tempfile::TempDir;

/// Asks one question of each kind, and keeps the prompt of its second turn.
const BRAIN: &str = r#"read -r line
case "$line" in
  *'"turn":1,'*)
    echo '{"type":"question","id":"colour","text":"which colour?"}'
    echo '{"type":"question","id":"size","kind":"choice","text":"which size?","options":["s","l"]}'
    echo '{"type":"question","id":"count","kind":"form","text":"how many?","schema":{"required":["n"],"properties":{"n":{"type":"integer"},"gift":{"type":"boolean"}}}}'
    echo '{"type":"question","id":"rm","kind":"approval","text":"delete it?","call":{"name":"rm","args":{"path":"/x"}}}' ;;
  *) printf '{"type":"artifact","name":"prompt","data":%s}\n{"type":"done"}\n' "$line" ;;
esac
"#;

/// `mesh` on a terminal of its own.
pub(super) struct Terminal {
    child: Child,
    screen: Arc<Mutex<String>>,
    _home: TempDir,
}

impl Terminal {
    pub(super) fn start(args: &[&str]) -> Self {
        Self::run("", args)
    }

    /// With so many rows and columns.
    pub(super) fn sized((rows, columns): (&str, &str), args: &[&str]) -> Self {
        Self::run(&format!("stty rows {rows} cols {columns}; "), args)
    }

    fn run(before: &str, args: &[&str]) -> Self {
        let home = directory();
        let words = [&[env!("CARGO_BIN_EXE_mesh")], args].concat();
        let quoted: Vec<_> = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
        let mut child = Command::new("script")
            .args([
                "--quiet",
                "--return",
                "--command",
                &format!("{before}exec {}", quoted.join(" ")),
                "/dev/null",
            ])
            .env("HOME", home.path())
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("`script` of util-linux makes the terminal: {error}"));
        let screen = Arc::new(Mutex::new(String::new()));
        let (mut output, shown) = (child.stdout.take().unwrap(), screen.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..read]));
            }
        });
        Self { child, screen, _home: home }
    }

    /// Waits until `text` is shown, and forgets what came before.
    pub(super) async fn shows(&self, text: &str) {
        let started = Instant::now();
        loop {
            {
                let mut screen = self.screen.lock().unwrap();
                if let Some(at) = screen.find(text) {
                    screen.drain(..at + text.len());
                    return;
                }
                assert!(started.elapsed() < DEADLINE, "{text:?} is never shown: {screen:?}");
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }

    pub(super) fn types(&mut self, text: &str) {
        self.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// The exit code, and what is shown last.
    pub(super) async fn ends(mut self) -> (i32, String) {
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(started.elapsed() < DEADLINE, "it does not end: {:?}", self.screen);
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        };
        // The reader ends with the output.
        let text = eventually("the end of the output", async || {
            Arc::strong_count(&self.screen).eq(&1).then_some(())
        });
        text.await;
        let text = self.screen.lock().unwrap().clone();
        (status.code().unwrap_or(-1), text)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

async fn up() -> Process {
    let team = "agents: [{ agent: asker-01, open: true, brain: { exec: [sh, brain.sh] } }]";
    Process::up_beside(team, &[("brain.sh", BRAIN)]).await
}

#[tokio::test]
async fn the_questions_of_a_task_are_answered_where_it_was_asked_for() {
    let node = up().await;
    let token = node.data.join("token").to_string_lossy().into_owned();
    let mut terminal = Terminal::start(&["ask", "wrap it", "--url", &node.url, "--token", &token]);
    terminal.shows("? which colour?").await;
    terminal.shows("> ").await;
    terminal.types("blue\n");
    terminal.shows("? which size?").await;
    terminal.shows("2) l").await;
    terminal.shows("number or option: ").await;
    terminal.types("9\n");
    terminal.shows("answer one of s, l").await;
    terminal.shows("number or option: ").await;
    terminal.types("2\n");
    terminal.shows("? how many?").await;
    for (prompt, line) in [("gift (boolean, Enter leaves it out): ", "\n"), ("n (integer): ", "many\n")] {
        terminal.shows(prompt).await;
        terminal.types(line);
    }
    terminal.shows("n must be of type integer").await;
    terminal.shows("n (integer): ").await;
    terminal.types("3\n");
    terminal.shows("? delete it?").await;
    terminal.shows("\"path\": \"/x\"").await;
    terminal.shows("approve? ").await;
    terminal.types("ok\n");
    terminal.shows("y approves").await;
    terminal.shows("approve? ").await;
    terminal.types("y\n");
    let (code, text) = terminal.ends().await;
    assert_eq!(code, 0, "{text}");
    // What was answered stands before it, too.
    let end = text.rfind('}').unwrap();
    let prompt: Value =
        text.match_indices('{').find_map(|(at, _)| serde_json::from_str(&text[at..=end]).ok()).unwrap();
    let answers = prompt["answers"].as_array().unwrap();
    let of =
        |id: &str| answers.iter().find(|answer| answer["id"] == id).unwrap_or_else(|| panic!("{prompt:#}"));
    assert_eq!((&of("colour")["text"], &of("size")["text"]), (&json!("blue"), &json!("l")));
    assert_eq!(of("count")["values"], json!({ "n": 3 }));
    assert_eq!(of("rm")["decision"], "approve");
}

#[tokio::test]
async fn a_task_goes_on_without_the_terminal() {
    let node = up().await;
    let agent = node.agent("asker-01");
    let answer = async |id: &str, body: Value| {
        let answered = call(Method::POST, &format!("{}/a2a/tasks/{id}/answer", agent.url), Some(&body)).await;
        assert!(answered.status < 300, "{answered:?}");
    };
    // Another client answers while the prompt is shown. Ctrl-C leaves the task as it is.
    let mut terminal = Terminal::start(&["ask", "wrap it", "--task-id", "t-1", "--url", &node.url]);
    terminal.shows("? which colour?").await;
    terminal.shows("> ").await;
    answer("t-1", json!({ "text": "red" })).await;
    terminal.shows("no longer open").await;
    terminal.shows("? which size?").await;
    terminal.shows("number or option: ").await;
    terminal.types("\x03");
    let (code, text) = terminal.ends().await;
    assert!(code == 130 && text.contains("no longer waits; task t-1 waits for an answer"), "{code}: {text}");
    let task = agent.task("t-1").await;
    let size = task["metadata"][protocol::task::EXTENSION]["questions"][0]["id"].as_str().unwrap();
    assert!(
        state(&task) == "input_required" && text.contains(&format!("`mesh answer t-1 --question {size} ")),
        "{text}"
    );

    // Without the person's token an approval is refused, and the question stays open.
    let mut terminal = Terminal::start(&["ask", "wrap it", "--task-id", "t-2", "--url", &node.url]);
    for (prompt, line) in
        [("> ", "blue\n"), ("option: ", "s\n"), ("gift", "no\n"), ("n (", "1\n"), ("approve? ", "y\n")]
    {
        terminal.shows(prompt).await;
        terminal.types(line);
    }
    terminal.shows("person's token").await;
    terminal.shows("approve? ").await;
    // The end of the input leaves it open, too.
    terminal.types("\x04");
    let (code, text) = terminal.ends().await;
    assert!(code == 7 && text.contains("task t-2 asks: ") && text.contains("--approve"), "{code}: {text}");
    let token = node.data.join("token").to_string_lossy().into_owned();
    let rm = agent.task("t-2").await["metadata"][protocol::task::EXTENSION]["questions"][0]["id"].clone();
    let args = [
        "answer",
        "t-2",
        "--question",
        rm.as_str().unwrap(),
        "--approve",
        "--url",
        &node.url,
        "--token",
        &token,
    ];
    let (code, _, errors) = mesh(&args, &[]);
    assert_eq!(code, 0, "{errors}");
    let task = agent.task_in("t-2", &["completed", "failed"]).await;
    assert!(artifact(&task, "prompt").is_some(), "{task:#}");

    // Programs that read the output are not asked.
    let terminal = Terminal::start(&["ask", "wrap it", "--quiet", "--url", &node.url]);
    assert_eq!(terminal.ends().await.0, 7);
}

#[tokio::test]
async fn who_waits_without_a_terminal_is_told_what_for() {
    let slow = r#"read -r line; sleep 5; echo '{"type":"done","message":"made"}'"#;
    let yaml = format!(
        "agents: [{{ agent: slow-01, skills: [make], brain: {{ exec: [sh, -c, '{}'] }} }}]",
        slow.replace('\'', "''")
    );
    let node = Process::up(&yaml).await;
    let ask = |more: &[&str]| {
        let words = ["ask", "make it", "--capability", "make", "--url", &node.url];
        mesh(&[&words, more].concat(), &[])
    };
    assert_eq!(ask(&["--no-wait"]).0, 0);
    let (code, said, errors) = ask(&[]);
    assert_eq!((code, said.as_str()), (0, "made\n"), "{errors}");
    assert_eq!(errors.matches("the task is submitted: queued: slow-01 is busy").count(), 1, "{errors}");
    assert_eq!(errors.matches("the task is working").count(), 1, "{errors}");
    let (code, said, errors) = ask(&["--json"]);
    let task: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, state(&task).as_str()), (0, "completed"), "{errors}");
    assert!(errors.contains("the task is working"), "{errors}");
    let (code, _, errors) = ask(&["--quiet"]);
    assert_eq!((code, errors.as_str()), (0, ""));
}
