//! The person's token: the registry makes it, every process of the mesh accepts it, the command line uses it (DESIGN §13).

use crate::harness::{Process, client, cluster::Cluster, eventually, mesh, refusal_of_status};
use std::{os::unix::fs::PermissionsExt as _, path::Path};

const TEAM: &str = "agents: [{ agent: echo-01, open: true, skills: [echo], brain: { echo: {} } }]";

fn token_in(data: &Path) -> String {
    let file = data.join("token");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    let (code, out, errors) = mesh(&["token", "--data", &data.to_string_lossy()], &[]);
    assert_eq!((code, errors.as_str()), (0, ""));
    assert_eq!(out, std::fs::read_to_string(file).unwrap() + "\n");
    out.trim().to_owned()
}

async fn status(url: &str, token: &str) -> u16 {
    client().get(url).bearer_auth(token).send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn every_process_of_a_mesh_accepts_the_token_that_its_registry_makes() {
    let mut cluster = Cluster::start().await;
    let node = cluster.node("one", TEAM).await;
    let token = token_in(&cluster.registry.data);
    let echo = node.agent("echo-01");
    for url in [&cluster.registry.url, &cluster.board.url, &echo.url] {
        let accepted = async || (status(&format!("{url}/healthz"), &token).await == 200).then_some(());
        eventually(&format!("{url} accepts the token"), accepted).await;
    }
    let sent = client().post(format!("{}/a2a/messages", echo.url)).bearer_auth(&token);
    let sent =
        sent.json(&echo.request(serde_json::json!({ "taskId": "t-1", "description": "x" }))).send().await;
    assert_eq!(sent.unwrap().status().as_u16(), 202);
    echo.task_in("t-1", &["completed"]).await;
    // A board that has been restarted is told again, and a registry makes no second token.
    cluster.board.revive().await;
    cluster.registry.revive().await;
    assert_eq!(token_in(&cluster.registry.data), token);
    let again =
        async || (status(&format!("{}/readyz", cluster.board.url), &token).await == 200).then_some(());
    eventually("the board accepts it again", again).await;
    for path in ["registry/token", "board/token"] {
        let base = if path.starts_with("registry") { &cluster.registry.url } else { &cluster.board.url };
        let request = match path {
            "registry/token" => client().get(format!("{base}/{path}")),
            _ => {
                client().put(format!("{base}/{path}")).json(&serde_json::json!({ "sha256": "0".repeat(64) }))
            }
        };
        let refused = request.bearer_auth(&token).send().await.unwrap();
        assert_eq!(refusal_of_status(refused).await, (403, "forbidden".to_owned()), "{path}");
    }
    let other = Process::up(TEAM).await;
    let refused = client().get(format!("{}/healthz", other.url)).bearer_auth(&token).send().await.unwrap();
    assert_eq!(refusal_of_status(refused).await, (401, "unauthenticated".to_owned()));
}

#[tokio::test]
async fn the_command_line_shows_the_token_to_the_mesh_that_it_is_of() {
    let home = crate::harness::directory();
    let team = crate::harness::file(home.path(), "team.yaml", TEAM);
    let args = ["up", "--port", "0", "--profile", "fast", &team.to_string_lossy()];
    let default = Process::at_home(home.path(), "", &args).await;
    let other = Process::up(TEAM).await;
    let home_path = home.path().to_string_lossy().into_owned();
    for url in [&default.url, &other.url] {
        let (code, out, errors) = mesh(&["ls", "--url", url], &[("HOME", &home_path)]);
        assert_eq!((code, out.contains("echo-01")), (0, true), "{errors}");
    }
    // Named, it is shown to any mesh, and refused by another one.
    let file = default.data.join("token").to_string_lossy().into_owned();
    let (code, out, errors) = mesh(&["ls", "--url", &default.url, "--token", &file], &[]);
    assert_eq!((code, out.contains("echo-01")), (0, true), "{errors}");
    let (code, _, errors) = mesh(&["ls", "--url", &other.url], &[("MESH_TOKEN_FILE", &file)]);
    assert!(code == 6 && errors.contains("another mesh"), "{code}: {errors}");
    let empty = home.path().join("empty").to_string_lossy().into_owned();
    let (code, _, errors) = mesh(&["token", "--data", &empty], &[]);
    assert!(code == 77 && errors.contains("mesh registry"), "{code}: {errors}");
}

/// Wrong tokens are failed logins, of which a process takes ten a second.
#[tokio::test]
async fn the_tokens_of_many_other_meshes_do_not_hide_the_right_one() {
    let home = crate::harness::directory();
    for other in 0..15 {
        let dir = home.path().join(format!(".mesh/other-{other}"));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("token"), format!("mesh-person-{other:064}")).unwrap();
    }
    let team = crate::harness::file(home.path(), "team.yaml", TEAM).to_string_lossy().into_owned();
    let args = ["up", "--port", "0", "--profile", "fast", "--name", "zoo", &team];
    let mesh_of_home = Process::at_home(home.path(), "../zoo", &args).await;
    let home_path = home.path().to_string_lossy().into_owned();
    for _ in 0..3 {
        let (code, _, errors) = mesh(&["space", "ls", "--url", &mesh_of_home.url], &[("HOME", &home_path)]);
        assert_eq!(code, 0, "{errors}");
    }
}

#[tokio::test]
async fn the_command_line_finds_the_token_of_the_mesh_that_it_talks_to() {
    const GATE: &str = "
agents: [{ agent: gate-01, open: true, brain: { scripted: script.yaml } }]
";
    const SCRIPT: &str = "
turns:
  - when: { turn: 1 }
    say: [{ type: question, id: rm, text: delete it?, kind: approval, call: { name: rm, args: {} } }]
  - { end: { done: deleted } }
";
    let home = crate::harness::directory();
    crate::harness::file(home.path(), "script.yaml", SCRIPT);
    let team = crate::harness::file(home.path(), "team.yaml", GATE).to_string_lossy().into_owned();
    let up = ["up", "--port", "0", "--profile", "fast"];
    let default = Process::at_home(home.path(), "", &[&up[..], &[&team]].concat()).await;
    let named = [&up[..], &["--name", "second", &team]].concat();
    let second = Process::at_home(home.path(), "../second", &named).await;
    let elsewhere = Process::up_beside(GATE, &[("script.yaml", SCRIPT)]).await;
    let home_path = home.path().to_string_lossy().into_owned();
    let run = |args: &[&str]| mesh(args, &[("HOME", &home_path)]);
    for process in [&default, &second] {
        let url = process.url.as_str();
        let token = std::fs::read_to_string(process.data.join("token")).unwrap();
        assert_eq!(run(&["token", "--url", url]), (0, token + "\n", String::new()));
        let (code, _, errors) = run(&["ask", "clean up", "--task-id", "t-1", "--url", url]);
        assert!(code == 7 && errors.contains(&format!("--approve --url {url}`")), "{code}: {errors}");
        let (code, out, errors) = run(&["answer", "t-1", "--approve", "--url", url]);
        assert_eq!((code, errors.contains("delete it?")), (0, true), "{out} {errors}");
        process.agent("gate-01").task_in("t-1", &["completed"]).await;
    }
    // A mesh that is not in ~/.mesh.
    let url = elsewhere.url.as_str();
    let (code, _, errors) = run(&["token", "--url", url]);
    assert!(code == 77 && errors.contains("--data"), "{code}: {errors}");
    assert_eq!(run(&["ask", "clean up", "--task-id", "t-1", "--url", url]).0, 7);
    let (code, _, errors) = run(&["answer", "t-1", "--approve", "--url", url]);
    assert!(code == 6 && errors.contains("--token FILE"), "{code}: {errors}");
    let file = elsewhere.data.join("token").to_string_lossy().into_owned();
    let (code, _, errors) = run(&["answer", "t-1", "--approve", "--url", url, "--token", &file]);
    assert_eq!(code, 0, "{errors}");
    elsewhere.agent("gate-01").task_in("t-1", &["completed"]).await;
}
