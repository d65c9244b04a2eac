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
