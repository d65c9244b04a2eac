//! An invalid configuration is reported before anything starts: the file, the position, the value and the remedy.

use crate::harness::{DEADLINE, Process, directory, file, mesh, ports::reserved_port, state};
use serde_json::{Value, json};
use std::{net::TcpListener, path::Path, process::Stdio};

const TEAM: &str = "agents: [{ agent: echo-01, skills: [echo], brain: { echo: {} } }]";

/// Runs `mesh` with arguments that must fail; returns its exit code and output.
pub(crate) async fn ended(args: &[&str]) -> (i32, String) {
    let child = tokio::process::Command::new(env!("CARGO_BIN_EXE_mesh"))
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let output = tokio::time::timeout(DEADLINE, child.wait_with_output()).await;
    let output = output.unwrap_or_else(|_| panic!("{args:?} goes on running")).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("panicked"), "{said}");
    (output.status.code().unwrap_or(-1), said)
}

/// `mesh up` with `team` and its data in `data`.
async fn up(data: &Path, team: &Path) -> (i32, String) {
    let (data, team) = (data.to_string_lossy(), team.to_string_lossy());
    ended(&["up", "--port", "0", "--profile", "fast", "--data", &data, &team]).await
}

#[tokio::test]
async fn a_faulty_file_is_refused_with_its_line_its_key_and_a_suggestion() {
    let cases = [
        ("agents:\n  - agent: a-01\n    brian: { echo: {} }\n", ":3", &["brian", "`brain`"][..]),
        (
            "agents:\n  - agent: a-01\n    brain: { scripted: no-such.yaml }\n",
            ":3",
            &["brain.scripted", "no-such.yaml"],
        ),
        (
            "agents:\n  - agent: a-01\n    brain: { exec: [./no-such.sh] }\n",
            ":3",
            &["brain.exec", "no-such.sh"],
        ),
        ("agents:\n  - agent: ../a\n    brain: { echo: {} }\n", ":2", &["agents[0].agent", "[A-Za-z0-9]"]),
        (
            "agents:\n  - agent: a-01\n    bid: { maxParallel: many }\n    brain: { echo: {} }\n",
            ":3",
            &["bid.maxParallel"],
        ),
        (
            "agents:\n  - { agent: a-01, brain: { echo: {} } }\n  - { agent: a-01, brain: { echo: {} } }\n",
            ":3",
            &["a-01 is taken", ":2"],
        ),
        (
            "agents:\n  - agent: a-01\n    description: ${NOBODY_SET_THIS}\n    brain: { echo: {} }\n",
            ":3",
            &["NOBODY_SET_THIS"],
        ),
        ("mesh: { limits: { maxBodyByte: 5 } }\n", ":1", &["maxBodyByte", "`maxBodyBytes`"]),
        ("mesh:\n  limits:\n    maxBodyBytes: 2000000\n", ":3", &["maxBodyBytes", "1048576"]),
        ("agents: [\n", "", &["team.yaml"]),
        ("agents:\n\t- agent: a-01\n", "", &["team.yaml"]),
        ("", "", &["team.yaml"]),
    ];
    let dir = directory();
    for (text, line, words) in cases {
        let team = file(dir.path(), "team.yaml", text);
        let place = format!("team.yaml{line}");
        let (code, said) = up(&dir.path().join("data"), &team).await;
        assert_eq!(code, 78, "{text}\n{said}");
        for word in words.iter().chain([&place.as_str()]) {
            assert!(said.contains(word), "{word} is missing for\n{text}\n{said}");
        }
        let (code, _, said) = mesh(&["validate", &team.to_string_lossy()], &[]);
        assert_eq!(code, 78, "{text}\n{said}");
        assert!(said.contains(&place), "{said}");
    }
    assert!(!dir.path().join("data").exists(), "nothing was made for what did not start");
}

#[tokio::test]
async fn all_faults_of_a_file_are_named_at_once() {
    let dir = directory();
    let text = "agents:\n  - { agent: a-01, brain: { echo: {} }, port: 0 }\n  - { agent: b/1, brain: { echo: {} } }\n  - { agent: c-01, brain: { echo: {} }, subscribe: [task.complet] }\n";
    let team = file(dir.path(), "team.yaml", text);
    let (code, said) = up(&dir.path().join("data"), &team).await;
    assert_eq!(code, 78, "{said}");
    for word in ["team.yaml:2", "port", "team.yaml:3", "b/1", "team.yaml:4", "task.complet", "task.complete"]
    {
        assert!(said.contains(word), "{word}: {said}");
    }
}

#[tokio::test]
async fn parameters_reach_the_agents_of_included_files() {
    let dir = directory();
    let team = file(
        dir.path(),
        "team.yaml",
        "include: [parts.yaml]\nparameters:\n  id: { description: Whose name it is }\n  port: { type: integer, default: 0 }\n",
    );
    file(
        dir.path(),
        "parts.yaml",
        "agents:\n  - { agent: '${param.id}', skills: [echo], brain: { echo: {} }, bid: { maxParallel: '${param.places}' } }\nparameters: { places: { type: integer, default: 1 } }\n",
    );
    let name = team.to_string_lossy().into_owned();
    let (code, said, _) = mesh(&["validate", &name, "--set", "id=echo-01", "--set", "places=3"], &[]);
    assert_eq!((code, said.as_str()), (0, "valid: 1 agent: echo-01; with id=\"echo-01\" places=3 port=0\n"));
    let (code, said, _) = mesh(&["validate", &name, "--set", "id=echo-01", "--json"], &[]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &said["parameters"]), (0, &json!({ "id": "echo-01", "places": 1, "port": 0 })));
    let (code, said) = up(&dir.path().join("data"), &team).await;
    assert!(code == 78 && said.contains("team.yaml:3: parameters.id: must be given"), "{said}");
    let (code, _, said) = mesh(&["validate", &name, "--set", "id"], &[]);
    assert!(code == 2 && said.contains("\"id\" is not of the form name=value"), "{said}");
    let (code, _, said) = mesh(&["up", "--set", "id=x"], &[]);
    assert!(code == 2 && said.contains("FILES"), "{said}");
    let data = dir.path().join("data");
    let args = ["up", "--port", "0", "--profile", "fast", "--set", "id=echo-07", "--set", "places=3", &name];
    let mesh = Process::start(&data, &args).await;
    let card =
        crate::harness::get(&format!("{}/.well-known/agent-card.json", mesh.agent("echo-07").url)).await;
    assert_eq!(card["name"], "echo-07", "{card:#}");
    let task = mesh.restart().await.agent("echo-07").ask(json!({ "description": "again" })).await;
    assert_eq!(state(&task), "completed");
}

#[tokio::test]
async fn a_missing_file_is_named() {
    let dir = directory();
    let (code, said) = up(&dir.path().join("data"), &dir.path().join("nowhere.yaml")).await;
    assert_eq!(code, 78, "{said}");
    assert!(said.contains("nowhere.yaml") && said.contains("No such file"), "{said}");
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let dir = directory();
    let port = reserved_port();
    let taken = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let team = file(
        dir.path(),
        "team.yaml",
        &format!("agents: [{{ agent: echo-01, port: {port}, brain: {{ echo: {{}} }} }}]"),
    );
    let (code, said) = up(&dir.path().join("data"), &team).await;
    assert_eq!(code, 69, "{said}");
    assert!(said.contains(&port.to_string()) && said.to_lowercase().contains("in use"), "{said}");
    drop(taken);
    let data = dir.path().join("data");
    let args = ["up", "--port", "0", "--profile", "fast", &team.to_string_lossy()];
    let mesh = Process::start(&data, &args).await;
    assert_eq!(mesh.agent("echo-01").url, format!("http://127.0.0.1:{port}"));
}

#[tokio::test]
async fn a_data_directory_in_use_is_refused_with_the_pid_of_its_holder() {
    let mesh = Process::up(TEAM).await;
    let (code, said) = up(&mesh.data, &mesh.dir().join("team.yaml")).await;
    assert_eq!(code, 73, "{said}");
    assert!(said.contains(&mesh.pid().to_string()), "{} is missing: {said}", mesh.pid());
    assert!(said.contains(&*mesh.data.to_string_lossy()), "{said}");
    let task = mesh.agent("echo-01").ask(json!({ "description": "unharmed", "capability": "echo" })).await;
    assert_eq!(state(&task), "completed");
    let run: Value = serde_json::from_slice(&std::fs::read(mesh.data.join("run.json")).unwrap()).unwrap();
    assert_eq!(run["pid"], mesh.pid());
}

#[tokio::test]
async fn an_unreadable_store_is_named_and_left_unchanged() {
    let dir = directory();
    let team = file(dir.path(), "team.yaml", TEAM);
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let garbage = "this is no store. ".repeat(1_000);
    let store = file(&data, "store.sqlite", &garbage);
    let (code, said) = up(&data, &team).await;
    assert_eq!(code, 74, "{said}");
    assert!(said.contains(&*data.to_string_lossy()), "{said}");
    assert_eq!(std::fs::read_to_string(store).unwrap(), garbage);

    let (code, said) = up(&team, &team).await;
    assert_eq!(code, 74, "a file is no directory: {said}");
    assert!(said.contains("team.yaml"), "{said}");
    assert_eq!(said.matches("os error").count(), 1, "its cause is told once: {said}");
}

#[tokio::test]
async fn an_invalid_join_secret_is_named() {
    let dir = directory();
    let team = file(dir.path(), "team.yaml", TEAM).to_string_lossy().into_owned();
    let data = dir.path().join("data").to_string_lossy().into_owned();
    for (join, why) in [(file(dir.path(), "short", "abc"), "bytes"), (dir.path().to_owned(), "director")] {
        let join = join.to_string_lossy();
        let args = ["up", "--port", "0", "--data", &data, "--join", &join, &team];
        let (code, said) = ended(&args).await;
        assert_eq!(code, 77, "{said}");
        assert!(said.contains(&*join) && said.contains(why), "{said}");
    }
}

#[tokio::test]
async fn the_data_of_a_newer_program_is_not_touched() {
    let dir = directory();
    let team = file(dir.path(), "team.yaml", TEAM);
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let store = rusqlite::Connection::open(data.join("store.sqlite")).unwrap();
    store.pragma_update(None, "user_version", 99).unwrap();
    let (code, said) = up(&data, &team).await;
    assert_eq!(code, 76, "{said}");
    assert!(said.contains("99"), "{said}");
    let version: u32 = store.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, 99);
}

#[tokio::test]
async fn a_service_on_its_own_ends_with_74_when_its_device_fails() {
    for verb in ["registry", "blackboard"] {
        let dir = directory();
        let data = dir.path().join("data");
        // A file size limit causes a write error other than a full disk.
        let limited = "trap '' XFSZ; ulimit -f 200; exec \"$@\"";
        let child = tokio::process::Command::new("bash")
            .args(["-c", limited, "bash", env!("CARGO_BIN_EXE_mesh"), verb, "--port", "0", "--data"])
            .arg(&data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let child = std::cell::RefCell::new(child);
        let url = || {
            let run = std::fs::read(data.join("run.json")).ok()?;
            Some(serde_json::from_slice::<Value>(&run).ok()?["url"].as_str()?.to_owned())
        };
        // The check of readiness writes to the store.
        let status = crate::harness::eventually("its end", async || {
            if let Some(url) = url() {
                drop(crate::harness::client().get(format!("{url}/readyz")).send().await);
            }
            child.borrow_mut().try_wait().unwrap()
        })
        .await;
        let mut said = String::new();
        let mut stderr = child.borrow_mut().stderr.take().unwrap();
        tokio::io::AsyncReadExt::read_to_string(&mut stderr, &mut said).await.unwrap();
        assert_eq!(status.code(), Some(74), "{verb}: {said}");
        assert!(said.contains("the store failed"), "{verb}: {said}");
    }
}

#[tokio::test]
async fn a_start_on_a_full_device_ends_with_74() {
    let dir = directory();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let team = file(dir.path(), "team.yaml", TEAM);
    let mount = "mount -t tmpfs -o size=400k none \"$1\" && head -c ${2}k /dev/zero > \"$1/filler\" && shift 2 && exec \"$@\"";
    for verb in ["registry", "blackboard", "up"] {
        for filled in [400, 396, 384, 360] {
            let started = tokio::process::Command::new("unshare")
                .args(["-rm", "sh", "-c", mount, "sh"])
                .arg(&data)
                .arg(filled.to_string())
                .args([env!("CARGO_BIN_EXE_mesh"), verb, "--port", "0", "--data"])
                .args([&data, &team])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .kill_on_drop(true)
                .spawn();
            let Ok(child) = started else { return eprintln!("skipped: there is no unshare") };
            let output = tokio::time::timeout(DEADLINE, child.wait_with_output()).await;
            let output = output.unwrap_or_else(|_| panic!("{verb} goes on with {filled} KB used")).unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            if said.contains("unshare") || said.contains("mount") {
                return eprintln!("skipped: no small file system of one's own here: {said}");
            }
            assert_eq!(output.status.code(), Some(74), "{verb} with {filled} KB used: {said}");
        }
    }
}

#[tokio::test]
async fn a_full_device_refuses_new_work_and_keeps_accepted_work() {
    let dir = directory();
    let (data, team) = (dir.path().join("data"), file(dir.path(), "team.yaml", TEAM));
    std::fs::create_dir(&data).unwrap();
    let mount = "mount -t tmpfs -o size=4m none \"$1\" && shift && exec \"$@\"";
    let started = tokio::process::Command::new("unshare")
        .args(["-rm", "sh", "-c", mount, "sh"])
        .arg(&data)
        .arg(env!("CARGO_BIN_EXE_mesh"))
        .args(["up", "--port", "0", "--profile", "fast", "--data"])
        .args([&data, &team])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let Ok(mut child) = started else { return eprintln!("skipped: there is no unshare") };
    // The mount is visible to that process only.
    let inside = format!("/proc/{}/root{}/run.json", child.id().unwrap(), data.display());
    let began = std::time::Instant::now();
    let run: Value = loop {
        if let Some(run) = std::fs::read(&inside).ok().and_then(|run| serde_json::from_slice(&run).ok()) {
            break run;
        }
        if child.try_wait().unwrap().is_some() {
            return eprintln!("skipped: no small file system of one's own here");
        }
        assert!(began.elapsed() < DEADLINE, "it does not start");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };
    let url = run["agents"]["echo-01"].as_str().unwrap().to_owned();
    let agent = crate::harness::Agent::at("echo-01", &url);
    let ready = format!("{}/readyz", agent.url);
    assert_eq!(crate::harness::call(reqwest::Method::GET, &ready, None).await.status, 200, "there is room");
    let text = "x".repeat(100_000);
    let mut taken = Vec::new();
    let refused = loop {
        let id = format!("t-{}", taken.len());
        let request = agent
            .request(json!({ "taskId": id, "description": format!("{id} {text}"), "capability": "echo" }));
        let answer = agent.post(&request).await;
        if answer.status != 202 {
            break answer;
        }
        taken.push(id);
        assert!(taken.len() < 200, "four megabytes hold no twenty");
    };
    assert_eq!(crate::harness::refusal(&refused), (507, "storage_full".into()));
    assert!(!taken.is_empty());
    for id in &taken {
        let task = agent.task(id).await;
        assert_eq!(task["id"], json!(id), "what was taken is still there: {task:#}");
    }
    // Fill the device until it takes small pages but no message.
    crate::harness::eventually("a device too full for a message", async || {
        let request = agent.request(json!({ "description": "x".repeat(3_000), "capability": "echo" }));
        (agent.post(&request).await.status == 507).then_some(())
    })
    .await;
    let told = crate::harness::call(reqwest::Method::GET, &ready, None).await;
    assert_eq!(told.status, 503, "it is told at once: {told:?}");
    assert!(told.body.to_string().contains("no room left"), "{told:?}");
    child.kill().await.unwrap();
}
