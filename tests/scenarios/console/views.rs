//! The views beside tasks: what each viewer is shown, and that nothing of agents and people runs in them.

use super::{Page, SCRIPT, TEAM, alice, link, up};
use crate::harness::{Process, eventually, file, refusal};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

const HOSTILE: &str = "</div><script>alert(1)</script>\u{202e}gnp.exe\u{1b}[31m";

/// Asserts that nothing of [`HOSTILE`] is code or deceives in `shown`.
fn assert_harmless(shown: &str) {
    for code in ["<script", "\u{202e}", "\u{1b}", " style=", " onerror=alert(1)>.html\""] {
        assert!(!shown.contains(code), "{code:?}: {shown}");
    }
}

#[tokio::test]
async fn the_board_shows_each_viewer_its_own_signals_by_filter_and_by_time() {
    let mesh = up().await;
    let (person, alice) = (Page::of_link(&link(&mesh, &[]).await).await, alice(&mesh.url).await);
    let offer = json!({ "type": "task.available", "taskId": "open-1", "capability": "nobodys", "subject": HOSTILE, "refs": { "description": HOSTILE } });
    let offered =
        mesh.call_as_person(Method::POST, &format!("{}/board/signals", mesh.url), Some(&offer)).await;
    assert_eq!(offered.status, 201, "{offered:?}");
    let board = person.view("view=board").await;
    assert!(
        board.contains("open-1")
            && board.contains("&lt;script&gt;alert(1)")
            && board.contains("agent.joined"),
        "{board}"
    );
    assert_harmless(&board);
    let hers = alice.view("view=board").await;
    assert!(
        !hers.contains("open-1") && hers.contains("agent.joined"),
        "tasks of others are not hers: {hers}"
    );
    for (query, has_offer, has_joined) in [
        ("kind=task.available", true, false),
        ("kind=agent.*", false, true),
        ("id=open-1", true, false),
        ("text=GNP.exe", true, false),
        ("agent=registry", false, true),
        ("before=1", false, false),
        ("before=2020-01-01T00%3A00", false, false),
        ("before=2090-01-01T00%3A00", true, true),
    ] {
        let shown = person.view(&format!("view=board&{query}")).await;
        let has = |text: &str| shown.split("data-key=\"signal-").skip(1).any(|line| line.contains(text));
        assert_eq!((has("task.available"), has("agent.joined")), (has_offer, has_joined), "{query}: {shown}");
    }
    let bad = person.get("console/view?view=board&kind=nonsense").await;
    assert_eq!(refusal(&bad), (400, "invalid_field".to_owned()));
}

#[tokio::test]
async fn an_entry_is_decided_on_the_page_by_those_who_may() {
    let mesh = up().await;
    let (person, alice) = (Page::of_link(&link(&mesh, &[]).await).await, alice(&mesh.url).await);
    let entries = format!("{}/board/spaces/default/entries", mesh.url);
    let propose = async |slug: &str| {
        let draft = json!({ "kind": "proposal", "type": "learning", "slug": slug, "title": HOSTILE, "content": HOSTILE });
        let posted = mesh.call_as_person(Method::POST, &entries, Some(&draft)).await;
        posted.body["id"].as_str().unwrap_or_else(|| panic!("{posted:?}")).to_owned()
    };
    let (first, second) = (propose("one").await, propose("two").await);
    let space = person.view("view=space&id=default").await;
    assert_harmless(&space);
    assert!(space.contains(&first) && space.contains("value=\"merge\""), "{space}");
    let hers = alice.view("view=space").await;
    assert!(hers.contains(&first) && !hers.contains("value=\"merge\""), "a member decides nothing: {hers}");
    let decide = |entry: &str, change: &str, reason: &str| {
        [
            ("space", "default".to_owned()),
            ("entry", entry.to_owned()),
            ("version", "1".to_owned()),
            ("change", change.to_owned()),
            ("reason", reason.to_owned()),
        ]
    };
    let form = async |page: &Page, fields: [(&'static str, String); 5]| {
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        page.form("entry", &fields).await
    };
    let refused = form(&alice, decide(&first, "merge", "")).await;
    assert_eq!(refused.status, 403, "{refused:?}");
    let without_reason = form(&person, decide(&second, "reject", "")).await;
    assert_eq!(refusal(&without_reason), (400, "invalid_field".to_owned()));
    assert_eq!(form(&person, decide(&second, "reject", "not now")).await.status, 204);
    assert_eq!(form(&person, decide(&first, "merge", "good")).await.status, 204);
    let stale = form(&person, decide(&first, "merge", "again")).await;
    assert!(stale.status >= 400, "{stale:?}");
    let rejected = person.view("view=space&kind=proposal&state=rejected").await;
    assert!(
        rejected.contains(&second) && rejected.contains("not now") && !rejected.contains(&first),
        "{rejected}"
    );
    let memory = person.view("view=space&kind=memory").await;
    assert!(memory.contains("value=\"archive\"") && memory.contains("active"), "{memory}");
    let none = alice.get("console/view?view=space&id=no-such").await;
    assert_eq!(none.status, 404, "{none:?}");
}

#[tokio::test]
async fn a_session_is_steered_by_its_person_and_hidden_from_others() {
    let mesh = up().await;
    let front = mesh.agent("front-01");
    let (person, alice) = (Page::of_link(&link(&mesh, &["front-01"]).await).await, alice(&front.url).await);
    let graph = json!({ "stages": [
        { "id": "talk", "seats": [{ "person": "ada" }] },
        { "id": "ideas", "after": ["talk"], "sealed": true, "seats": ["front-01"] },
    ] });
    let task =
        json!({ "taskId": "t-session", "description": HOSTILE, "capability": "session", "input": graph });
    let url = format!("{}/a2a/messages", front.url);
    let sent = mesh.call_as_person(Method::POST, &url, Some(&front.request(task))).await;
    assert!(sent.status < 300, "{sent:?}");
    let at = "view=session&id=t-session";
    let shown = eventually("the person's seat is asked", async || {
        let shown = person.view(at).await;
        shown.contains("asked").then_some(shown)
    })
    .await;
    assert_harmless(&shown);
    for part in
        ["<svg class=\"plan\"", "waits for talk", "is sealed", "hx-post=\"console/steer\"", "waits for ada"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let list = person.view("view=sessions").await;
    assert!(list.contains("view=session&amp;id=t-session"), "{list}");
    assert_eq!(alice.get(&format!("console/view?{at}")).await.status, 404);
    assert!(!alice.view("view=sessions").await.contains("t-session"));
    assert_eq!(alice.form("steer", &[("task", "t-session"), ("verb", "stop")]).await.status, 404);
    let bad = person.form("steer", &[("task", "t-session"), ("verb", "pause")]).await;
    assert_eq!(refusal(&bad), (400, "invalid_field".to_owned()));
    let steer = [("task", "t-session"), ("verb", "stop"), ("stage", ""), ("seat", ""), ("text", "enough")];
    let stopped = person.form("steer", &steer).await;
    assert_eq!(stopped.status, 204, "{stopped:?}");
    eventually("the session ends", async || {
        let shown = person.view(at).await;
        (shown.contains("stopped") && !shown.contains("console/steer")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_task_that_waits_for_its_agent_is_drawn_as_waiting() {
    let dir = crate::harness::directory();
    let hold = file(dir.path(), "hold", "");
    let wait = "read -r turn; while [ -e \"$1\" ]; do sleep 0.02; done; echo '{\"type\":\"done\",\"message\":\"ok\"}'";
    let script = file(dir.path(), "wait.sh", wait);
    let brain = format!("{{ exec: [sh, '{}', '{}'] }}", script.display(), hold.display());
    let mesh =
        Process::up(&format!("agents: [{{ agent: slow-01, open: true, skills: [slow], brain: {brain} }}]"))
            .await;
    let page = Page::of_link(&link(&mesh, &["slow-01"]).await).await;
    let ((first, at_work), (second, waits)) = (page.send("first").await, page.send("second").await);
    let slow = mesh.agent("slow-01");
    slow.task_in(&first, &["working"]).await;
    assert!(!page.view(&at_work).await.contains("span queued"));
    let shown = page.view(&waits).await;
    assert!(shown.contains("span queued") && shown.contains("waits for a free place"), "{shown}");
    std::fs::remove_file(&hold).unwrap();
    slow.task_in(&second, &["completed"]).await;
    assert!(!page.view(&waits).await.contains("span queued"));
}

/// Uses as many tokens as its request says.
const METER: &str = r#"
import json, sys
used = int(json.loads(sys.stdin.readline())["task"]["description"])
print(json.dumps({"type": "usage", "model": "m", "inputTokens": used, "outputTokens": 0, "cost": used / 100}))
print(json.dumps({"type": "artifact", "name": "line", "text": "long " * 190000}))
print(json.dumps({"type": "done", "message": "used"}))
"#;

#[tokio::test]
async fn costs_quotas_and_the_state_of_the_process_are_shown_by_right() {
    let dir = crate::harness::directory();
    let script = file(dir.path(), "meter.py", METER);
    let more = format!(
        "  - {{ agent: meter-01, open: true, entrance: true, skills: [dig], brain: {{ exec: [python3, '{}'] }}, quotas: [{{ tokens: 1234, per: day, reached: wait }}] }}\nmesh:",
        script.display()
    );
    let mesh = Process::up_beside(&TEAM.replace("mesh:", &more), &[("script.yaml", SCRIPT)]).await;
    let (person, alice) = (Page::of_link(&link(&mesh, &[]).await).await, alice(&mesh.url).await);
    assert!(
        person.view("view=start").await.contains("value=\"meter-01\" selected"),
        "the entrance is chosen"
    );
    let dig = async |page: &Page, tokens: &str| {
        let sent = page.form("send", &[("agent", "meter-01"), ("description", tokens)]).await;
        let go = sent.headers["mesh-console-go"].to_str().unwrap().strip_prefix('?').unwrap().to_owned();
        eventually("it is done", async || {
            let shown = page.view(&go).await;
            shown.contains("<span>completed</span>").then_some(shown)
        })
        .await
    };
    let shown = dig(&person, "1200").await;
    assert!(
        shown.contains("more bytes are not shown") && shown.len() < 1_000_000,
        "a line of nearly a megabyte is cut"
    );
    dig(&alice, "7").await;
    for kind in ["agent", "capability", "requester", "task", "day"] {
        let all = person.view(&format!("view=cost&kind={kind}&since=7d")).await;
        assert!(all.contains("1\u{202f}207 tokens") && all.contains("<svg class=\"chart\""), "{kind}: {all}");
        let hers = alice.view(&format!("view=cost&kind={kind}")).await;
        assert!(hers.contains("7 tokens, cost 0.0700") && !hers.contains("1\u{202f}207"), "{kind}: {hers}");
    }
    assert!(!alice.view("view=cost&kind=requester").await.contains("user:local"));
    let quotas = person.view("view=cost").await;
    assert!(quotas.contains("1207 of 1234 tokens") && quotas.contains("near"), "{quotas}");
    assert!(!quotas.contains("Held back by quotas"), "{quotas}");
    dig(&person, "100").await;
    let held = person.form("send", &[("agent", "meter-01"), ("description", "5")]).await;
    assert_eq!(held.status, 204, "{held:?}");
    eventually("the quota holds a task back", async || {
        let shown = person.view("view=cost").await;
        (shown.contains("Held back by quotas") && shown.contains("reached")).then_some(())
    })
    .await;
    assert!(!alice.view("view=cost").await.contains("Held back by quotas"), "it is not hers");
    assert_eq!(person.get("console/view?view=cost&kind=nobody").await.status, 400);
    assert_eq!(person.get("console/view?view=cost&since=never").await.status, 400);
    let map = person.view("view=mesh").await;
    assert!(
        map.contains("<svg class=\"map\"") && map.contains("agent=meter-01") && map.contains("this process"),
        "{map}"
    );
    let agent = person.view("view=agent&agent=meter-01").await;
    for part in ["Track record", "Tokens and cost by day", "At the moment", "Its brain (exec)"] {
        assert!(agent.contains(part), "{part}: {agent}");
    }
    let hers = alice.view("view=agent&agent=meter-01").await;
    assert!(!hers.contains("Its brain (exec)"), "{hers}");
    assert!(!hers.contains("At the moment") && hers.contains("of its last 1 task that"), "{hers}");
    assert_eq!(person.get("console/view?view=agent&agent=nobody").await.status, 404);
    let health = person.view("view=health").await;
    for part in ["keepTasksMs", "14 d<", "Store", "is used up and opens again at", env!("CARGO_PKG_VERSION")]
    {
        assert!(health.contains(part), "{part}: {health}");
    }
    let hers = alice.view("view=health").await;
    assert!(hers.contains("keepTasksMs") && !hers.contains("Spans exported"), "{hers}");
}

/// The next event of a stream that is none of its heartbeats; `None` if it has ended.
async fn event(stream: &mut reqwest::Response) -> Option<Value> {
    loop {
        let bytes = stream.chunk().await.ok()??;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some(data) = text.strip_prefix("data: ") {
            return serde_json::from_str(data.trim()).ok();
        }
    }
}

#[tokio::test]
async fn a_stream_tells_of_the_viewers_own_tasks_and_ends_with_the_session() {
    let mesh = up().await;
    let front = mesh.agent("front-01");
    let (person, alice) = (Page::of_link(&link(&mesh, &["front-01"]).await).await, alice(&front.url).await);
    let open = async |page: &Page, query: &str| {
        page.request(Method::GET, &format!("console/stream?{query}")).send().await.unwrap()
    };
    let mut hers = open(&alice, "view=tasks").await;
    assert_eq!(event(&mut hers).await.unwrap()["of"], json!([]));
    let (task, _) = person.send("of the person").await;
    front.task_in(&task, &["completed"]).await;
    let nothing = tokio::time::timeout(Duration::from_secs(1), event(&mut hers)).await;
    assert!(nothing.is_err(), "a task of another wakes no page: {nothing:?}");
    alice.send("of alice").await;
    assert_eq!(event(&mut hers).await.unwrap()["of"], json!(["tasks"]));
    // A signal wakes the board.
    let mut board = open(&person, "view=board").await;
    assert_eq!(event(&mut board).await.unwrap()["of"], json!([]));
    let seen = json!({ "type": "acme.seen" });
    mesh.call_as_person(Method::POST, &format!("{}/board/signals", mesh.url), Some(&seen)).await;
    let told = tokio::time::timeout(Duration::from_secs(30), async {
        while !event(&mut board).await.unwrap()["of"].as_array().unwrap().contains(&json!("signals")) {}
    });
    assert!(told.await.is_ok(), "the board is told");
    // A task that is not there is said to be so, and its page has a connection.
    let unknown = person.get("console/view?view=task&id=t-nowhere").await;
    assert_eq!(refusal(&unknown), (404, "task_not_found".to_owned()));
    assert_eq!(open(&person, "view=task&id=t-nowhere").await.status().as_u16(), 200);
    assert_eq!(person.form("sign-out", &[]).await.status, 204);
    let end =
        tokio::time::timeout(Duration::from_secs(5), async { while event(&mut board).await.is_some() {} });
    assert!(end.await.is_ok(), "it has ended with the session");
}
