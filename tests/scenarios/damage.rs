//! A flipped bit on disk is noticed, told with the remedy, and never read as data.

use crate::harness::{Process, get, mesh};
use serde_json::{Value, json};
use std::path::Path;

const TEAM: &str = "agents:\n  - { agent: echo-01, skills: [echo], open: true, brain: { echo: {} } }\n";

fn flip(file: &Path, at: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[at] ^= 8;
    std::fs::write(file, bytes).unwrap();
}

/// In the middle of a page in the middle of a write-ahead log, far from its last commit.
fn flip_log(file: &Path) {
    let frames = (std::fs::metadata(file).unwrap().len() as usize - 32) / (24 + 2048);
    assert!(frames > 8, "{frames} frames");
    flip(file, 32 + frames / 2 * (24 + 2048) + 1000);
}

async fn post_entry(mesh: &Process, n: usize) {
    let entry = json!({ "kind": "finding", "title": format!("finding {n}"), "content": "seen" });
    let url = format!("{}/board/spaces/default/entries", mesh.url);
    let answer = mesh.call_as_person(reqwest::Method::POST, &url, Some(&entry)).await;
    assert_eq!(answer.status, 201, "{answer:?}");
}

#[tokio::test]
async fn commits_that_a_damaged_log_has_lost_end_the_start_with_74_and_are_given_up_on_demand() {
    for store in ["", "spaces"] {
        let mut process = Process::up(TEAM).await;
        for n in 0..10 {
            process.agent("echo-01").ask(json!({ "taskId": format!("t-{n}"), "description": "hello" })).await;
            post_entry(&process, n).await;
        }
        process.kill();
        let dir = if store.is_empty() { process.data.clone() } else { process.data.join(store) };
        flip_log(&dir.join("store.sqlite-wal"));
        let data = process.data.to_string_lossy().into_owned();

        let (code, errors) = process.run_to_end();
        assert_eq!(code, 74, "{errors}");
        let said = [
            "write-ahead log",
            "is damaged at byte",
            &*dir.to_string_lossy(),
            "mesh store check --accept-loss",
        ];
        assert!(said.iter().all(|part| errors.contains(part)), "{errors}");
        let (code, _, errors) = mesh(&["store", "check", "--data", &data], &[]);
        assert!(code == 74 && errors.contains("--accept-loss"), "{code}: {errors}");
        let check = ["--json", "store", "check", "--accept-loss", "--data", &data];
        let (code, answer, errors) = mesh(&check, &[]);
        assert_eq!(code, 0, "{answer} {errors}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let given_up = |at: &Value| at["givenUp"].as_u64().unwrap_or_default() > 1;
        let stores: Vec<_> = answer["stores"].as_array().unwrap().iter().filter(|at| given_up(at)).collect();
        assert_eq!(stores.len(), 1, "{answer:#}");
        assert_eq!(stores[0]["dir"], json!(dir), "{answer:#}");

        let process = process.restart().await;
        assert_eq!(get(&format!("{}/readyz", process.url)).await["ready"], true);
        process.agent("echo-01").ask(json!({ "taskId": "after", "description": "hello" })).await;
        post_entry(&process, 10).await;
    }
}

#[tokio::test]
async fn a_damaged_record_is_in_the_log_in_readyz_and_in_the_doctor() {
    let mut process = Process::up(TEAM).await;
    process.agent("echo-01").ask(json!({ "taskId": "t-1", "description": "a marked description" })).await;
    process.signal("TERM");
    assert_eq!(process.ended().await, 0);
    let file = process.data.join("store.sqlite");
    let on = rusqlite::Connection::open(&file).unwrap();
    let changed = on
        .execute("UPDATE state SET value = CAST(replace(CAST(value AS TEXT), 'marked', 'parked') AS BLOB) WHERE key LIKE 'echo-01.task.%'", [])
        .unwrap();
    assert!(changed > 0);
    drop(on);
    let process = process.restart().await;
    let answer = mesh(&["tasks", "show", "t-1", "--url", &process.url], &[]);
    assert_ne!(answer.0, 0, "{answer:?}");

    let ready = get(&format!("{}/readyz", process.url)).await;
    assert!(ready["damaged"][0].as_str().unwrap_or_default().contains("echo-01.task"), "{ready:#}");
    assert_eq!(ready["ready"], true, "the rest works: {ready:#}");
    assert!(process.log().contains("the store is damaged"), "{}", process.log());
    let (code, report, _) = process.as_person(&["doctor"]).await;
    assert!(code == 1 && report.contains("is damaged"), "{code}: {report}");
}
