//! What a process says about what it finds when it starts.

use crate::harness::{Process, directory, eventually, file, mesh};
use serde_json::json;

const ECHO: &str = "agents:\n  - { agent: echo-01, skills: [echo], open: true, brain: { echo: {} } }\n";

#[tokio::test]
async fn data_of_another_program_or_format_is_named_and_left_alone() {
    let dir = directory();
    let data = dir.path().join("data");
    std::fs::create_dir_all(&data).unwrap();
    let file = data.join("store.sqlite");
    for (version, sql, expected) in
        [(0, "CREATE TABLE photos (id)", 74), (1, "CREATE TABLE photos (id)", 74), (77, "", 76), (-1, "", 74)]
    {
        drop(std::fs::remove_file(&file));
        let on = rusqlite::Connection::open(&file).unwrap();
        on.execute_batch(sql).unwrap();
        on.pragma_update(None, "user_version", version).unwrap();
        drop(on);
        let before = std::fs::read(&file).unwrap();
        let args = ["up", "--port", "0", "--data", data.to_str().unwrap()];
        let (code, _, errors) = mesh(&args, &[]);
        assert_eq!((code, errors.lines().count()), (expected, 1), "{version}: {errors}");
        let names = [file.to_str().unwrap(), &format!("{version}")].iter().all(|part| errors.contains(part));
        assert!(names, "{version}: {errors}");
        assert_eq!(std::fs::read(&file).unwrap(), before, "{version}: it was written to");
    }
}

#[tokio::test]
async fn a_join_secret_that_others_can_read_is_named_once() {
    use std::os::unix::fs::PermissionsExt as _;
    let mesh = Process::up_in(&[], ECHO).await;
    assert!(!mesh.log().contains("others can read"), "{}", mesh.log());
    let join = mesh.data.join("join");
    std::fs::set_permissions(&join, std::fs::Permissions::from_mode(0o640)).unwrap();
    let mesh = mesh.restart().await;
    eventually("the line", async || mesh.log().contains("others can read").then_some(())).await;
    let log = mesh.log();
    let lines: Vec<_> = log.lines().filter(|line| line.contains("others can read")).collect();
    assert!(
        matches!(lines.as_slice(), [line] if line.contains(join.to_str().unwrap()) && line.contains("640")),
        "{log}"
    );
}

#[tokio::test]
async fn a_variable_that_is_none_of_ours_is_named_with_the_nearest_that_is() {
    let odd = ["MESH_CAPTUER=full", "MESH_QQQQQQQQ=1", "MESH_DATA=", "MESH_LOOPBACK=0.0.1"];
    let mesh = Process::up_in(&odd.map(str::to_owned), ECHO).await;
    eventually("both lines", async || mesh.log().contains("MESH_QQQQQQQQ").then_some(())).await;
    let log = mesh.log();
    let lines: Vec<_> = log.lines().filter(|line| line.contains("MESH_CAPTUER")).collect();
    assert!(matches!(lines.as_slice(), [line] if line.contains("MESH_CAPTURE")), "{log}");
    assert_eq!(log.matches("MESH_QQQQQQQQ").count(), 1, "{log}");
    assert!(!log.contains("MESH_DATA") && !log.contains("MESH_LOOPBACK"), "{log}");
}

#[tokio::test]
async fn every_line_of_a_process_is_json_where_that_is_asked_for() {
    let json_of = |text: &str| -> Vec<serde_json::Value> {
        let parsed = text.lines().map(|line| {
            serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line:?} of\n{text}"))
        });
        parsed.collect()
    };
    let mut process = Process::up_in(&["MESH_LOG=json".to_owned()], ECHO).await;
    process.agent("echo-01").ask(json!({ "description": "say", "capability": "echo" })).await;
    process.signal("TERM");
    assert_eq!(process.ended().await, 0);
    let lines = json_of(&std::fs::read_to_string(process.data.join("log")).unwrap());
    let said = |part: &str| {
        lines.iter().any(|line| line["message"].as_str().is_some_and(|said| said.contains(part)))
    };
    assert!(said("echo-01 at http") && said("leaving") && said("a conversation ended"), "{lines:#?}");
    assert!(
        lines.iter().all(|line| line["level"].is_string() && line["timestamp"].is_string()),
        "{lines:#?}"
    );

    let dir = directory();
    let team = file(dir.path(), "team.yaml", "agents:\n  - { agnet: x }\n  - { agent: y, brian: {} }\n");
    let (team, data) =
        (team.to_string_lossy().into_owned(), dir.path().join("data").to_string_lossy().into_owned());
    for (args, expected) in [
        (["up", "--data", &data, "--port", "0", &team].as_slice(), 78),
        (["up", "--data", &data, "--prot", "0"].as_slice(), 2),
        (["ls", "--url", "http://127.0.0.1:1"].as_slice(), 5),
    ] {
        let (code, _, errors) = mesh(args, &[("MESH_LOG", "json")]);
        let lines = json_of(&errors);
        assert_eq!((code, lines.len()), (expected, 1), "{errors}");
        assert!(lines[0]["level"] == "ERROR" && lines[0]["message"].is_string(), "{errors}");
    }
    let (code, _, errors) = mesh(&["ls", "--url", "http://127.0.0.1:1", "--log-format", "json"], &[]);
    assert_eq!((code, json_of(&errors).len()), (5, 1), "{errors}");
    let (code, shown, _) = mesh(&["--help"], &[("MESH_LOG", "json")]);
    assert!(code == 0 && shown.contains("Exit codes"), "{shown}");
}
