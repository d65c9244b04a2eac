//! Turns that note, pause, ask and cost (DESIGN §10).

use crate::harness::{
    Agent, Process, artifact, call, client, directory, eventually, file, mesh, message, refusal,
    refusal_of_status, state, stream,
};
use reqwest::Method;
use serde_json::{Value, json};

const EXTENSION: &str = protocol::task::EXTENSION;

/// A mesh of one agent with this script and these members.
async fn up(script: &str, members: &str) -> Process {
    let team = format!("agents: [{{ agent: solo-01, open: true, brain: {{ scripted: s.yaml }}{members} }}]");
    Process::up_beside(&team, &[("s.yaml", script)]).await
}

fn work(id: &str) -> Value {
    json!({ "taskId": id, "description": "work" })
}

fn questions(task: &Value) -> Vec<Value> {
    task["metadata"][EXTENSION]["questions"].as_array().cloned().unwrap_or_default()
}

fn id(question: &Value) -> &str {
    question["id"].as_str().unwrap()
}

async fn answer(agent: &Agent, task: &str, body: Value) -> crate::harness::Answer {
    call(Method::POST, &format!("{}/a2a/tasks/{task}/answer", agent.url), Some(&body)).await
}

/// Notes each call that it makes in a file, and takes a checkpoint after each. Before the third it waits for the gate, or ends
/// with its node.
const LOOP: &str = r#"read -r line; echo begun >> "$CALLS.turns"
case "$line" in *'"checkpoints":'*) done=$(printf '%s' "$line" | sed 's/.*"checkpoints":\[\([^]]*\)\].*/\1/' | tr ',' '\n' | grep -c .) ;; *) done=0 ;; esac
for n in 1 2 3 4; do
  [ "$n" -le "$done" ] && continue
  [ "$n" = 3 ] && while [ ! -e "$GATE" ]; do kill -0 $PPID || exit 1; sleep 0.05; done
  echo "call $n" >> "$CALLS"
  printf '{"type":"checkpoint","data":%s}\n{"type":"status","message":"noted %s"}\n' "$n" "$n"
done
printf '{"type":"done","message":"after %s calls"}\n' "$n"
"#;

/// How many turns have begun.
fn solo_turns(calls: &std::path::Path) -> usize {
    std::fs::read_to_string(calls.with_extension("turns")).unwrap_or_default().lines().count()
}

#[tokio::test]
async fn a_killed_turn_goes_on_after_its_last_checkpoint_and_repeats_no_call() {
    let dir = directory();
    let (calls, gate) = (dir.path().join("calls"), dir.path().join("gate"));
    let script = file(dir.path(), "loop.sh", LOOP);
    let team = format!(
        "agents: [{{ agent: solo-01, open: true, brain: {{ exec: [/bin/sh, '{}'] }}, env: {{ CALLS: '{}', GATE: '{}' }} }}]",
        script.display(),
        calls.display(),
        gate.display()
    );
    let mut mesh = Process::up(&team).await;
    let solo = mesh.agent("solo-01");
    solo.send(work("t-1")).await;
    let lines = || std::fs::read_to_string(&calls).unwrap_or_default();
    // Reports become durable in order.
    eventually("two checkpoints", async || (message(&solo.task("t-1").await) == "noted 2").then_some(()))
        .await;
    mesh.kill();
    let mesh = mesh.restart().await;
    let begun = async || (solo_turns(&calls) == 2).then_some(());
    eventually("the turn begun again", begun).await;
    std::fs::write(&gate, "").unwrap();
    let task = mesh.agent("solo-01").task_in("t-1", &["completed", "failed"]).await;
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("completed", "after 4 calls"), "{task:#}");
    assert_eq!(lines(), "call 1\ncall 2\ncall 3\ncall 4\n");
}

#[tokio::test]
async fn a_paused_turn_goes_on_by_a_timer_that_survives_a_restart() {
    let script = "
turns:
  - when: { checkpoints: 0 }
    say: [{ type: checkpoint, data: asked the model }]
    end: { pause: { afterMs: 6000, reason: the provider answered 429 } }
  - when: { checkpoints: 1 }
    end: { done: answered }
";
    let mesh = up(script, ", bid: { maxParallel: 1 }").await;
    let solo = mesh.agent("solo-01");
    solo.send(work("t-1")).await;
    let paused = eventually("a pause", async || {
        let task = solo.task("t-1").await;
        message(&task).starts_with("solo-01 pauses until ").then_some(task)
    })
    .await;
    assert!(message(&paused).ends_with("the provider answered 429"), "{paused:#}");
    assert_eq!(solo.state().await["running"], 0, "it takes no place");
    let mesh = mesh.restart().await;
    let task = mesh.agent("solo-01").task_in("t-1", &["completed", "failed"]).await;
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("completed", "answered"), "{task:#}");
}

#[tokio::test]
async fn a_question_that_has_expired_keeps_nobody_from_waiting() {
    let script = "
turns:
  - when: { turn: 1 }
    holdMs: 20
    say: [{ type: question, id: q, text: which?, expiresAt: '2020-01-01T00:00:00Z' }]
  - { holdMs: 300, end: { done: without an answer } }
";
    let mesh = up(script, "").await;
    for _ in 0..5 {
        let (code, said, errors) = mesh.as_person(&["ask", "--to", "solo-01", "work"]).await;
        assert_eq!((code, said.trim()), (0, "without an answer"), "{errors}");
    }
}

#[tokio::test]
async fn a_task_that_waits_for_a_paused_one_says_so_until_it_goes_on() {
    let boss = "turns:
  - { when: { turn: 1 }, say: [{ type: delegate, id: d, to: 'capability:dig', description: dig }] }
  - { end: { done: dug } }
";
    let doer = "turns:
  - when: { checkpoints: 0 }
    say: [{ type: checkpoint, data: asked the model }]
    end: { pause: { afterMs: 6000, reason: the provider answered 503 } }
  - { end: { done: dug } }
";
    let team = "agents:
  - { agent: boss-01, open: true, brain: { scripted: boss.yaml } }
  - { agent: doer-01, skills: [dig], brain: { scripted: doer.yaml } }
";
    let mesh = Process::up_beside(team, &[("boss.yaml", boss), ("doer.yaml", doer)]).await;
    let boss = mesh.agent("boss-01");
    boss.send(work("t-1")).await;
    let paused = eventually("the pause", async || {
        let task = boss.task("t-1").await;
        message(&task).starts_with("doer-01 pauses until ").then_some(task)
    })
    .await;
    assert!(message(&paused).ends_with("the provider answered 503"), "{paused:#}");
    assert_eq!(state(&boss.task_in("t-1", &["completed", "failed"]).await), "completed");
    let events = stream(&format!("{}/a2a/tasks/t-1/events", boss.url), None).await;
    let goes_on = |(_, event): &(String, Value)| event.to_string().contains("doer-01 goes on after a pause");
    assert!(events.iter().any(goes_on), "{events:?}");
}

#[tokio::test]
async fn a_silent_brain_is_cut_and_a_slow_one_that_reports_is_not() {
    let script = "
turns:
  - when: { contains: silent }
    hang: true
  - when: { contains: slow }
    delayMs: 1500
    say: [&s { type: status, message: on it }, *s, *s, *s, *s]
    end: { done: slowly }
";
    let mesh = up(script, ", bounds: { idle: 5s, turn: 100s }, bid: { maxParallel: 2 }").await;
    let solo = mesh.agent("solo-01");
    let slow = solo.ask(json!({ "description": "slow" })).await;
    assert_eq!((state(&slow).as_str(), message(&slow).as_str()), ("completed", "slowly"), "{slow:#}");
    let silent = solo.ask(json!({ "description": "silent" })).await;
    assert_eq!(state(&silent), "failed", "{silent:#}");
    assert!(message(&silent).contains("nothing for 5000 ms (bounds: idle)"), "{silent:#}");
}

#[tokio::test]
async fn what_a_turn_used_counts_if_its_brain_dies_at_once() {
    let dir = directory();
    let dies =
        r#"read -r line; echo '{"type":"usage","model":"m","inputTokens":7,"outputTokens":1}'; exit 3"#;
    let script = file(dir.path(), "dies.sh", dies);
    let team = format!(
        "agents: [{{ agent: solo-01, open: true, brain: {{ exec: [/bin/sh, '{}'] }} }}]",
        script.display()
    );
    let node = Process::up_beside(&team, &[]).await;
    let task = node.agent("solo-01").ask(work("t-1")).await;
    assert_eq!(state(&task), "failed");
    let used = &task["metadata"][EXTENSION]["usage"]["inputTokens"];
    assert!(used.as_u64().is_some_and(|tokens| tokens > 0 && tokens % 7 == 0), "{task:#}");
}

#[tokio::test]
async fn a_task_that_uses_up_its_budget_fails_with_the_figures() {
    let script = "
turns:
  - when: { contains: cheap }
    say: [{ type: usage, model: m, inputTokens: 30, outputTokens: 10, cost: 0.5 }, { type: log, message: it was cheap }]
    end: { done: cheap }
  - say: [{ type: usage, model: m, inputTokens: 90, outputTokens: 20 }, { type: usage, model: m, inputTokens: 1, outputTokens: 0 }]
    holdMs: 60000
    end: { done: never }
";
    let mesh = up(script, ", bounds: { tokens: 0.1k }").await;
    let solo = mesh.agent("solo-01");
    let task = solo.ask(json!({ "description": "cheap" })).await;
    let used = &task["metadata"][EXTENSION]["usage"];
    assert_eq!(*used, json!({ "inputTokens": 30, "outputTokens": 10, "cost": 0.5 }), "{task:#}");
    eventually("the line in the log", async || mesh.log().contains("it was cheap").then_some(())).await;
    let task = solo.ask(json!({ "description": "dear" })).await;
    assert_eq!(state(&task), "failed", "{task:#}");
    assert_eq!(message(&task), "bounds.tokens: 100 used up: 111 used");
    assert_eq!(task["metadata"][EXTENSION]["usage"]["unpricedTokens"], 111, "{task:#}");
}

#[tokio::test]
async fn questions_are_answered_by_their_ids_and_only_a_person_approves() {
    let script = "
turns:
  - when: { turn: 1 }
    say:
      - { type: question, id: color, text: which color? }
      - { type: question, id: size, text: which size?, kind: choice, options: [s, l] }
      - { type: question, id: rm, text: delete it?, kind: approval, call: { name: rm, args: { path: /x } } }
  - end: { done: thanks }
";
    let running = up(script, "").await;
    let solo = running.agent("solo-01");
    solo.send(work("t-1")).await;
    let task = solo.task_in("t-1", &["input_required"]).await;
    let asked = questions(&task);
    assert_eq!(asked.len(), 3, "{task:#}");
    assert_eq!(asked[2]["call"]["args"]["path"], "/x");
    let (size, rm) = (id(&asked[1]), id(&asked[2]));
    let refused = async |body| refusal(&answer(&solo, "t-1", body).await);
    let invalid = (400, "invalid_field".to_owned());
    assert_eq!(refused(json!({ "questionId": size, "text": "m" })).await, invalid);
    assert_eq!(refused(json!({ "questionId": rm, "text": "yes" })).await, invalid);
    assert_eq!(refused(json!({ "text": "a", "decision": "approve" })).await, invalid);
    let other = (409, "not_awaiting_answer".to_owned());
    assert_eq!(refused(json!({ "questionId": "other", "text": "m" })).await, other);
    let approves = json!({ "questionId": rm, "decision": "approve" });
    assert_eq!(refused(approves.clone()).await, (403, "forbidden".to_owned()), "without the person's token");
    let by_message = json!({ "taskId": "t-1", "questionId": rm, "answer": { "decision": "approve" } });
    let by_message =
        json!({ "fromAgentId": "me", "toAgentId": "solo-01", "type": "task-answer", "payload": by_message });
    assert_eq!(refusal(&solo.post(&by_message).await), (403, "forbidden".to_owned()));
    let inbox = call(Method::GET, &format!("{}/a2a/inbox", solo.url), None).await.body;
    let waiting: Vec<_> =
        inbox["items"].as_array().unwrap().iter().map(|item| id(&item["question"])).collect();
    assert_eq!(waiting, [id(&asked[0]), size, rm], "{inbox:#}");
    let cli = |args: &[&str]| mesh(&[args, &["--url", &running.url]].concat(), &[]);
    let (code, out, errors) = cli(&["inbox"]);
    assert!(code == 0 && out.contains(rm) && out.contains("delete it?"), "{out}{errors}");
    // The only one that takes a text needs no id.
    let answered = answer(&solo, "t-1", json!({ "text": "blue" })).await;
    assert_eq!((answered.status, questions(&answered.body).len()), (200, 2), "{answered:?}");
    assert_eq!(refused(json!({ "text": "green" })).await, invalid, "the only choice has no such option");
    let (code, out, errors) = cli(&["answer", "t-1", "l", "--question", size]);
    assert_eq!((code, out.trim()), (0, "t-1 input-required"), "{errors}");
    let token_file = running.data.join("token");
    let token = std::fs::read_to_string(&token_file).unwrap();
    let url = format!("{}/a2a/tasks/t-1/answer", solo.url);
    let (code, _, errors) = cli(&["answer", "t-1", "--question", rm, "--approve"]);
    assert!(code == 6 && errors.contains("person's token"), "{code}: {errors}");
    let token_file = token_file.to_string_lossy();
    let (code, _, errors) = cli(&["answer", "t-1", "--question", rm, "--approve", "--token", &token_file]);
    assert!(code == 0 && errors.contains("call: rm"), "what is approved is shown: {code}: {errors}");
    let task = solo.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!(message(&task), "thanks", "{task:#}");
    let late = client().post(&url).bearer_auth(token.trim()).json(&approves).send().await.unwrap();
    assert_eq!(refusal_of_status(late).await, other);
    assert_eq!(cli(&["inbox"]).1.trim(), "nothing waits for you");
}

#[tokio::test]
async fn a_turn_goes_on_while_its_requests_are_answered_and_done_ends_them() {
    let asker = "
turns:
  - when: { turn: 1 }
    delayMs: 100
    say:
      - { type: help, id: view, to: friend-01, question: what do you think?, wait: false }
      - { type: question, id: who, text: who are you?, wait: false }
      - { type: delegate, id: slow, to: friend-01, description: never, wait: false }
      - { type: status, message: still at it }
    end: waiting
  - say: [{ type: artifact, name: out, text: the view is there }]
    end: { done: enough }
";
    let friend = "
turns:
  - when: { contains: think }
    delayMs: 2500
    end: { done: fine by me }
  - hang: true
";
    let team = "
agents:
  - { agent: solo-01, open: true, brain: { scripted: solo.yaml } }
  - { agent: friend-01, open: true, brain: { scripted: friend.yaml }, bid: { maxParallel: 4 } }
";
    let mesh = Process::up_beside(team, &[("solo.yaml", asker), ("friend.yaml", friend)]).await;
    let (solo, friend) = (mesh.agent("solo-01"), mesh.agent("friend-01"));
    solo.send(work("t-1")).await;
    let asked = eventually("the question while it works", async || {
        let task = solo.task("t-1").await;
        (state(&task) == "working" && message(&task) == "still at it" && questions(&task).len() == 1)
            .then_some(task)
    });
    asked.await;
    let task = solo.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("completed", "enough"), "{task:#}");
    eventually("the delegated task withdrawn", async || {
        let tasks = call(Method::GET, &format!("{}/a2a/tasks", friend.url), None).await.body;
        let tasks = tasks["tasks"].as_array()?.clone();
        tasks.iter().any(|task| state(task) == "canceled").then_some(())
    })
    .await;
}

/// Says the results of its requests back.
const SAYS_ANSWERS: &str = r#"read -r line; echo "a turn begins" >&2
case "$line" in
  *'"turn":1,'*) printf '{"type":"question","id":"a","text":"first?"}\n' ;;
  *'"turn":2,'*) printf '{"type":"question","id":"b","text":"may I?","kind":"approval","expiresAt":"2026-01-01T00:00:00Z"}\n' ;;
  *) printf '{"type":"artifact","name":"line","text":"%s"}\n{"type":"done"}\n' "$(printf '%s' "$line" | base64 | tr -d '\n')" ;;
esac
"#;

#[tokio::test]
async fn every_turn_is_given_all_answers_and_a_late_approval_is_denied() {
    let dir = directory();
    let script = file(dir.path(), "says.sh", SAYS_ANSWERS);
    let team = format!(
        "agents: [{{ agent: solo-01, open: true, brain: {{ exec: [/bin/sh, '{}'] }} }}]",
        script.display()
    );
    let mesh = Process::up(&team).await;
    let solo = mesh.agent("solo-01");
    solo.send(work("t-1")).await;
    solo.task_in("t-1", &["input_required"]).await;
    assert_eq!(answer(&solo, "t-1", json!({ "text": "one" })).await.status, 200);
    let task = solo.task_in("t-1", &["completed", "failed"]).await;
    let says = |line: &str| line.contains("a turn begins") && line.contains("solo-01");
    assert_eq!(mesh.log().lines().filter(|line| says(line)).count(), 3, "{}", mesh.log());
    use base64::Engine as _;
    let line = artifact(&task, "line").unwrap_or_else(|| panic!("{task:#}"));
    let line = base64::engine::general_purpose::STANDARD.decode(line).unwrap();
    let given: Value = serde_json::from_slice(&line).unwrap();
    let answers: Vec<_> =
        given["answers"].as_array().unwrap().iter().map(|one| (&one["id"], &one["ok"])).collect();
    assert_eq!(answers, [(&json!("a"), &json!(true)), (&json!("b"), &json!(false))], "{given:#}");
    assert_eq!(given["answers"][1]["decision"], "deny");
    assert!(given["remaining"]["turnMs"].as_u64().is_some_and(|left| left > 1_000_000), "{given:#}");
}

#[tokio::test]
async fn a_later_task_of_a_context_is_told_of_the_earlier_ones() {
    let dir = directory();
    let say = r#"read -r line; printf '{"type":"artifact","name":"line","text":"%s"}\n{"type":"done","message":"it is 7"}\n' "$(printf '%s' "$line" | base64 | tr -d '\n')""#;
    let script = file(dir.path(), "says.sh", say);
    let team = format!(
        "agents: [{{ agent: solo-01, open: true, brain: {{ exec: [/bin/sh, '{}'] }} }}]",
        script.display()
    );
    let mesh = Process::up(&team).await;
    let solo = mesh.agent("solo-01");
    let send = async |id: &str, context: &str, text: &str| {
        let message = json!({ "messageId": id, "role": "ROLE_USER", "contextId": context, "parts": [{ "text": text }] });
        let body = json!({ "message": message, "configuration": { "blocking": true } });
        let url = format!("{}/a2a/v1/message:send", solo.url);
        let answer = client().post(url).header("a2a-version", "1.0").json(&body).send().await.unwrap();
        let task = answer.json::<Value>().await.unwrap()["task"].clone();
        use base64::Engine as _;
        let line = artifact(&task, "line").unwrap_or_else(|| panic!("{task:#}"));
        let line = base64::engine::general_purpose::STANDARD.decode(line).unwrap();
        serde_json::from_slice::<Value>(&line).unwrap()
    };
    assert_eq!(send("m-1", "c-1", "what is 3 + 4?").await["history"], Value::Null);
    let second = send("m-2", "c-1", "and plus one?").await;
    let earlier = &second["history"][0];
    assert_eq!(
        (&earlier["description"], &earlier["message"]),
        (&json!("what is 3 + 4?"), &json!("it is 7")),
        "{second:#}"
    );
    assert_eq!(second["messages"][0]["messageId"], "m-2");
    assert_eq!(send("m-3", "c-2", "what?").await["history"], Value::Null, "another context");
}

#[test]
fn the_old_bound_of_a_turn_is_refused_with_the_new_one_named() {
    let dir = directory();
    let team = "mesh: { limits: { thinkMs: 5 } }\nagents: [{ agent: a, brain: { echo: {} } }]\n";
    let team = file(dir.path(), "team.yaml", team);
    let (code, _, errors) = mesh(&["validate", &team.to_string_lossy()], &[]);
    assert!(
        code != 0 && errors.contains("thinkMs") && errors.contains("bounds: { turn:"),
        "{code}: {errors}"
    );
}
