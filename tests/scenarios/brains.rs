//! What a command can reach as a brain (DESIGN §8; docs/security.md). These tests need root, which may run a brain as another
//! user; without it they only check the refusal.

use crate::harness::{Process, artifact, client, directory, file, refusal_of_status};
use base64::Engine as _;
use std::{
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::Path,
    process::Command,
};

/// The uid of `nobody`, under which nothing of the mesh is readable.
const NOBODY: u32 = 65_534;

const CANARY: &str = "canary-in-the-environment-of-the-node";

/// Prints its environment, that of its parent, and every file that it can open below the directory that its task names.
const SPY: &str = r#"read -r line
dir=$(printf '%s' "$line" | sed 's/.*"description":"\([^"]*\)".*/\1/')
found=$({
  echo "pwd=$(pwd) uid=$(id -u) groups=$(id -G)"; env
  cat /proc/$PPID/environ /proc/$PPID/cmdline /proc/$PPID/maps
  for fd in /proc/$PPID/fd/* /proc/self/fd/*; do readlink $fd; done
  dd if=/proc/$PPID/mem bs=4096 count=1 skip=1
  find "$dir" "$HOME" /proc/$PPID/cwd/ -type f -exec cat {} +
} 2>/dev/null | head -c 400000 | base64 | tr -d '\n')
printf '{"type":"artifact","name":"found","text":"%s"}\n{"type":"done"}\n' "$found"
"#;

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    let is_root = id.stdout.starts_with(b"0\n");
    if !is_root {
        eprintln!("not root: this test checks nothing here");
    }
    is_root
}

fn team(user: &str) -> String {
    let lines: String = SPY.lines().map(|line| format!("          {line}\n")).collect();
    format!(
        "
mesh:
  callers: [{{ user: anna, apiKey: '${{ANNA_KEY}}' }}]
agents:
  - agent: spy-01
    open: true
    brain:
      exec:
        - sh
        - -c
        - |
{lines}{user}"
    )
}

/// What the brain of a mesh has found.
async fn found_in(mesh: &Process) -> Vec<u8> {
    // Others may enter the directories, so that only the files' own modes protect them.
    for dir in [mesh.dir(), mesh.data.as_path()] {
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let dir = mesh.dir().display().to_string();
    let task = mesh.agent("spy-01").ask(serde_json::json!({ "description": dir })).await;
    let text = artifact(&task, "found").unwrap_or_else(|| panic!("{task:#}"));
    base64::engine::general_purpose::STANDARD.decode(text).unwrap()
}

/// The content of every file with a key or secret of the mesh.
fn secrets(data: &Path) -> Vec<(String, Vec<u8>)> {
    let keys = std::fs::read_dir(data.join("keys")).unwrap().map(|entry| entry.unwrap().path());
    let files = keys.chain([data.join("join"), data.join("token")]);
    let read = |file: std::path::PathBuf| {
        let secret = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        (file.display().to_string(), secret.trim_ascii().to_vec())
    };
    let secrets: Vec<_> = files.map(read).collect();
    assert!(secrets.len() >= 3 && secrets.iter().all(|(_, secret)| secret.len() > 16));
    secrets
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn line_of(found: &[u8], name: &str) -> String {
    let text = String::from_utf8_lossy(found);
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
}

#[tokio::test]
async fn a_brain_with_a_user_of_its_own_finds_no_key_or_secret_of_the_mesh() {
    if !is_root() {
        return;
    }
    let mesh = Process::up_in(&[format!("ANNA_KEY={CANARY}")], &team("      user: nobody\n")).await;
    let found = found_in(&mesh).await;
    for (file, secret) in secrets(&mesh.data) {
        assert!(!contains(&found, &secret), "it has read {file}");
    }
    assert!(!contains(&found, CANARY.as_bytes()), "it has read the environment of the node");
    let home = line_of(&found, "HOME");
    assert_eq!(line_of(&found, "pwd"), format!("{home} uid={NOBODY} groups={NOBODY}"), "no other group");
    assert!(!Path::new(&home).starts_with(mesh.dir()) && home.contains("mesh-brain-spy-01"), "{home}");
    assert_eq!(line_of(&found, "TMPDIR"), home);
    // The same brain as root, which the security page warns of, shows that the search finds what is readable.
    let mesh = Process::up_in(&[format!("ANNA_KEY={CANARY}")], &team("")).await;
    let found = found_in(&mesh).await;
    assert!(secrets(&mesh.data).iter().all(|(_, secret)| contains(&found, secret)));
    assert!(contains(&found, CANARY.as_bytes()));
}

#[tokio::test]
async fn a_brain_of_the_nodes_own_user_reads_neither_its_memory_nor_its_environment() {
    if !is_root() {
        return;
    }
    let mesh = Process::up_as(NOBODY, &[("ANNA_KEY", CANARY)], &team("")).await;
    let found = found_in(&mesh).await;
    assert!(line_of(&found, "pwd").ends_with(&format!("uid={NOBODY} groups={NOBODY}")));
    assert!(!contains(&found, CANARY.as_bytes()), "it has read the environment of the node");
    let join = std::fs::read(mesh.data.join("join")).unwrap();
    assert!(contains(&found, &join), "files of the same user are readable, as the security page says");
}

#[tokio::test]
async fn a_node_that_may_not_switch_users_says_so_and_does_not_start() {
    if !is_root() {
        return;
    }
    let dir = directory();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let start = |user: &str, uid: u32| {
        let team = file(dir.path(), "team.yaml", &team(&format!("      user: {user}\n")));
        let data = dir.path().join(format!("data-{uid}"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_mesh"));
        command.args(["up", "--port", "0", "--data"]).arg(&data).arg(team);
        let output = command.env("ANNA_KEY", CANARY).uid(uid).gid(uid).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = start("daemon", NOBODY);
    assert_eq!(code, Some(78), "{text}");
    assert!(
        text.contains("the brain of spy-01") && text.contains("uid 65534") && text.contains("Root may"),
        "{text}"
    );
    let (code, text) = start("no-such-user", 0);
    assert_eq!((code, text.contains("there is no user no-such-user")), (Some(78), true), "{text}");
}

#[tokio::test]
async fn the_token_of_a_brain_is_good_at_its_own_node_only() {
    let environment = [format!("ANNA_KEY={CANARY}")];
    let mesh = Process::up_in(&environment, &team("")).await;
    let found = found_in(&mesh).await;
    let (node, token) = (line_of(&found, "MESH_NODE_URL"), line_of(&found, "MESH_BRAIN_TOKEN"));
    assert_eq!(node, mesh.agent("spy-01").url);
    let call = async |method: reqwest::Method, url: String, body: &'static str| {
        client()
            .request(method, url)
            .bearer_auth(&token)
            .header("content-type", "application/json")
            .body(body)
            .send()
            .await
            .unwrap()
    };
    let stored = call(reqwest::Method::PUT, format!("{node}/a2a/artifacts"), "content").await;
    assert_eq!(stored.status().as_u16(), 201);
    let digest = stored.json::<serde_json::Value>().await.unwrap()["sha256"].as_str().unwrap().to_owned();
    let read = call(reqwest::Method::GET, format!("{node}/a2a/artifacts/{digest}"), "").await;
    assert_eq!(read.text().await.unwrap(), "content");
    let local = client().get(format!("{node}/a2a/artifacts/{digest}")).send().await.unwrap();
    assert_eq!(local.status().as_u16(), 404, "it is the agent's, not the local user's");
    for (method, path) in [
        (reqwest::Method::GET, "/a2a/tasks"),
        (reqwest::Method::POST, "/a2a/messages"),
        (reqwest::Method::GET, "/board/signals"),
        (reqwest::Method::GET, "/state"),
    ] {
        let refused = call(method, format!("{node}{path}"), "{}").await;
        assert_eq!(refusal_of_status(refused).await, (403, "forbidden".to_owned()), "{path}");
    }
    let other = Process::up_in(&environment, &team("")).await;
    let refused = call(reqwest::Method::GET, format!("{}/healthz", other.agent("spy-01").url), "").await;
    assert_eq!(refusal_of_status(refused).await, (401, "unauthenticated".to_owned()));
}

#[tokio::test]
async fn a_brain_has_the_limit_of_open_files_that_the_node_was_started_with() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let hard = limit.maximum.unwrap();
    // The node inherits it, and raises its own.
    setrlimit(Resource::Nofile, Rlimit { current: Some(hard - 1), ..limit }).unwrap();
    let own = if is_root() { format!(", user: '{NOBODY}:{NOBODY}'") } else { String::new() };
    let tell =
        r#"printf '{"type":"artifact","name":"limit","text":"%s"}\n{"type":"done"}\n' "$(ulimit -Sn)""#;
    let brain = |id: &str, more: &str| {
        let exec = serde_json::json!(["sh", "-c", tell]);
        format!("  - {{ agent: {id}, skills: [{id}], brain: {{ exec: {exec}{more} }} }}\n")
    };
    let team = format!("agents:\n{}{}", brain("plain", ""), brain("other", &own));
    let node = Process::up(&team).await;
    for id in ["plain", "other"] {
        let done = node.agent(id).ask(serde_json::json!({ "description": "x", "capability": id })).await;
        assert_eq!(artifact(&done, "limit"), Some((hard - 1).to_string()), "{id}: {done:#}");
    }
}
