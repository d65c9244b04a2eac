//! Names and texts of others do not steer a terminal, in `--json` neither.

use crate::harness::{
    Process,
    foreign::{ForeignAgent, ForeignBehavior, skill},
    mesh,
};
use serde_json::{Value, json};

const TEAM: &str = "agents: [{ agent: echo-01, open: true, skills: [echo], brain: { echo: {} } }]";

/// Clears the screen, in C0 and C1, and reverses the order of what follows.
const HOSTILE: &str = "a\u{1b}[2J\u{9b}2J\u{202e}b\u{85}\u{2066}";

fn steers(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t' || "\u{202e}\u{2066}".contains(c)
}

#[tokio::test]
async fn texts_of_tasks_are_printed_with_escapes() {
    let process = Process::up(TEAM).await;
    let echo = process.agent("echo-01");
    echo.ask(json!({ "taskId": "t-1", "description": HOSTILE })).await;
    let url = process.url.as_str();
    let mut escapes = 0;
    for args in [
        &["tasks", "--url", url][..],
        &["tasks", "--url", url, "--json"],
        &["tasks", "show", "t-1", "--url", url],
        &["tasks", "show", "t-1", "--url", url, "--json"],
        &["trace", "t-1", "--url", url],
        &["board", "tail", "--no-follow", "--url", url],
        &["ask", "--url", url, HOSTILE],
        &["tasks", "show", HOSTILE, "--url", url],
    ] {
        let (_, out, errors) = mesh(args, &[]);
        let printed = [out, errors].concat();
        // The content of an artifact goes into a pipe unchanged.
        let labels = printed.replacen(HOSTILE, "", 1);
        assert!(!labels.contains(steers), "mesh {args:?}: {printed:?}");
        escapes += usize::from(printed.contains("\\u009b"));
    }
    assert!(escapes >= 3, "the text is shown");
    let (code, out, errors) = mesh(&["tasks", "show", "t-1", "--url", url, "--json"], &[]);
    assert_eq!(code, 0, "{errors}");
    let read: Value = serde_json::from_str(&out).unwrap();
    assert!(read.to_string().contains('\u{202e}'), "JSON reads back what was sent: {out}");
}

#[actix::test]
async fn the_name_of_a_foreign_card_is_printed_with_escapes() {
    let hostile = skill("get_forecast", HOSTILE, &["weather"], &["x"]);
    let members = json!({ "name": HOSTILE, "description": HOSTILE });
    let foreign = ForeignAgent::start("Bot", hostile, members, ForeignBehavior::Never).await;
    let url = foreign.url.clone();
    let joined = tokio::task::spawn_blocking(move || {
        mesh(&["join", &url, "--allow", "127.0.0.0/8", "--as", "registry"], &[])
    });
    let (code, out, errors) = joined.await.unwrap();
    let printed = [out, errors].concat();
    assert!(code != 0 && printed.contains("\\u001b[2J\\u009b2J\\u202e"), "{printed:?}");
    assert!(!printed.contains(steers), "{printed:?}");
}
