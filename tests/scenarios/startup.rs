//! What a process reports at its start.

use crate::harness::{Process, directory, eventually, file, get, mesh, message};
use serde_json::json;
use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
};

const ECHO: &str = "agents:\n  - { agent: echo-01, skills: [echo], open: true, brain: { echo: {} } }\n";

#[tokio::test]
async fn data_of_another_program_or_format_is_named_and_left_unchanged() {
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
async fn a_damaged_key_is_named_in_one_line() {
    let mut process = Process::up_in(&[], ECHO).await;
    let (dir, data) = (process.dir().to_owned(), process.data.to_string_lossy().into_owned());
    process.kill();
    let key = process.data.join("keys/echo-01.ed25519");
    let team = dir.join("team.yaml").to_string_lossy().into_owned();
    for (verb, bytes) in [("up", &b"short"[..]), ("up", b""), ("node", b"short"), ("node", &[7; 33])] {
        std::fs::write(&key, bytes).unwrap();
        let (code, _, errors) = mesh(&[verb, "--port", "0", "--data", &data, &team], &[]);
        assert_eq!((code, errors.lines().count()), (74, 1), "{verb}: {errors}");
        let names = [key.to_str().unwrap(), "echo-01", &format!("{} bytes", bytes.len())];
        assert!(names.iter().all(|part| errors.contains(part)), "{verb}: {errors}");
    }
}

#[tokio::test]
async fn a_join_secret_that_others_can_read_is_logged_once() {
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
async fn an_unknown_variable_is_named_with_the_nearest_known_one() {
    let odd = [
        "MESH_CAPTUER=full",
        "MESH_QQQQQQQQ=1",
        "MESH_DATA=",
        "MESH_GRACE=",
        "MESH_LOOPBACK=0.0.1",
        "OTEL_EXPORTER_OTLP_ENDPIONT=http://127.0.0.1:4318",
        "OTEL_METRICS_EXPORTER=none",
        "OTEL_LOGS_EXPORTER=",
        "OTEL_EXPORTER_OTLP_SPAN_INSECURE=true",
        "OTEL_METRICS_EXEMPLAR_FILTER=always_on",
        "OTEL_EXPORTER_PROMETHEUS_PORT=1",
        "OTEL_EXOTIC=1",
        "OTEL_PROPAGATORS=b3,tracecontext",
    ];
    let mesh = Process::up_in(&odd.map(str::to_owned), ECHO).await;
    eventually("both lines", async || mesh.log().contains("MESH_QQQQQQQQ").then_some(())).await;
    let log = mesh.log();
    let lines: Vec<_> = log.lines().filter(|line| line.contains("MESH_CAPTUER")).collect();
    assert!(matches!(lines.as_slice(), [line] if line.contains("MESH_CAPTURE")), "{log}");
    assert_eq!(log.matches("MESH_QQQQQQQQ").count(), 1, "{log}");
    let is_said = |line: &&str| line.contains("ENDPIONT") && line.contains("OTEL_EXPORTER_OTLP_ENDPOINT");
    assert_eq!(log.lines().filter(is_said).count(), 1, "{log}");
    for (named, why) in [
        (&["OTEL_EXPORTER_OTLP_SPAN_INSECURE is set, but not used"][..], "https://"),
        (&["OTEL_EXPORTER_PROMETHEUS_PORT, OTEL_METRICS_EXEMPLAR_FILTER are set"], "/metrics"),
        (&["OTEL_EXOTIC is set, but not used by mesh"], "none that mesh knows"),
        (&["OTEL_PROPAGATORS", "b3"], "tracecontext"),
    ] {
        let is_said = |line: &&str| named.iter().all(|name| line.contains(name)) && line.contains(why);
        assert_eq!(log.lines().filter(is_said).count(), 1, "{named:?}: {log}");
    }
    let known = ["MESH_DATA", "MESH_GRACE", "MESH_LOOPBACK", "OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER"];
    assert!(known.iter().all(|name| !log.contains(name)), "{log}");
}

#[tokio::test]
async fn an_invalid_variable_is_named_in_one_line_with_valid_values() {
    let dir = directory();
    let (team, data) = (file(dir.path(), "team.yaml", ECHO), dir.path().join("data"));
    let (team, data) = (team.to_string_lossy().into_owned(), data.to_string_lossy().into_owned());
    let up = ["up", "--port", "0", "--data", &data, &team];
    let node = ["node", "--port", "0", "--data", &data, &team];
    for (args, name, value, wanted) in [
        (&up[..], "MESH_CAPTURE", "ful", "off, redacted, full"),
        (&up, "MESH_STORE", "disk", "embedded, memory"),
        (&up, "MESH_LOG", "jsno", "text, json"),
        (&up, "MESH_LOCAL_CALLERS", "gatway", "`gateway`"),
        (&up, "MESH_METRICS_CALLERS", "10.0.0.0/99", "192.168.65.0/24"),
        (&up, "MESH_HOSTS", "a/b", "no port, no path"),
        (&up, "MESH_LISTEN", "localhost", "0.0.0.0"),
        (&up, "MESH_GRPC_PORT", "99999", "65535"),
        (&up, "MESH_GRACE", "25", "25s"),
        (&up, "MESH_STOP_GRACE", "soon", "25s"),
        (&up, "MESH_URL", "registry:8000", "http://127.0.0.1:8000"),
        (&node, "MESH_REGISTRY", "registry", "http://127.0.0.1:8000"),
        (&node, "MESH_BOARD", "ftp://board", "http://127.0.0.1:8000"),
        (&["join", "http://127.0.0.1:1"], "MESH_OUTSIDE_ALLOW", "10.0.0.0/8,x", "10.0.0.0/8"),
        (&[], "MESH_CAPTURE", "ful", "off, redacted, full"),
        (&["tasks"], "MESH_AT", "here", "http://127.0.0.1:8000"),
        (&up, "RUST_LOG", "a=b=c", "debug"),
    ] {
        let (code, _, errors) = mesh(args, &[(name, value)]);
        assert_eq!((code, errors.lines().count()), (78, 1), "{name}: {errors}");
        assert!([name, value, wanted].iter().all(|part| errors.contains(part)), "{name}: {errors}");
    }
    for (flag, wanted) in [(["--capture", "ful"], "off, redacted, full"), (["--prot", "0"], "'--port'")] {
        let args: Vec<_> = up.iter().copied().chain(flag).collect();
        let (code, _, errors) = mesh(&args, &[("MESH_CAPTURE", "off")]);
        assert_eq!((code, errors.lines().count()), (2, 1), "{errors}");
        assert!(errors.contains(flag[0]) && errors.contains(wanted), "{errors}");
    }
}

#[tokio::test]
async fn every_line_is_json_with_the_json_log_format() {
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
    let dir = directory();
    let join = dir.path().join("join").to_string_lossy().into_owned();
    for said in ["holds a new secret", "it stays"] {
        let (code, told, _) = mesh(&["join-secret", "--init", &join], &[("MESH_LOG", "json")]);
        let lines = json_of(&told);
        let [line] = lines.as_slice() else { panic!("one line: {told}") };
        assert!(code == 0 && line["message"].as_str().is_some_and(|text| text.contains(said)), "{told}");
    }
    let (code, _, errors) = mesh(&["ls", "--url", "http://127.0.0.1:1", "--log-format", "json"], &[]);
    assert_eq!((code, json_of(&errors).len()), (5, 1), "{errors}");
    let (code, shown, _) = mesh(&["--help"], &[("MESH_LOG", "json")]);
    assert!(code == 0 && shown.contains("Exit codes"), "{shown}");
}

#[tokio::test]
async fn agents_get_the_next_free_ports_from_the_given_one_on() {
    // Below the ports of other tests and of the system.
    let (taken, port) = (15_001..19_000)
        .step_by(10)
        .find_map(|port| {
            TcpListener::bind(("127.0.0.1", port - 1)).ok()?;
            Some((TcpListener::bind(("127.0.0.1", port)).ok()?, port))
        })
        .unwrap();
    let dir = directory();
    let (first, given) = (file(dir.path(), "team.yaml", ECHO), (port - 1).to_string());
    let mesh_of = |part: &str| dir.path().join(part);
    let up = Process::start(&mesh_of("up"), &["up", "--port", &given, first.to_str().unwrap()]).await;
    assert!(up.url.ends_with(&format!(":{given}")), "{}", up.url);
    let port_of = |url: &str| url.rsplit(':').next().unwrap().parse::<u16>().unwrap();
    let next = port_of(&up.agents["echo-01"]);
    assert!((port + 1..port + 500).contains(&next), "{next} after {port}, which is taken");

    let second = file(dir.path(), "second.yaml", &ECHO.replace("echo-01", "echo-02"));
    let join = up.data.join("join").to_string_lossy().into_owned();
    let args = ["node", "--port", &given, "--registry", &up.url, "--join", &join, second.to_str().unwrap()];
    let node = Process::start(&mesh_of("node"), &args).await;
    let after = port_of(&node.agents["echo-02"]);
    assert!((next + 1..next + 500).contains(&after), "{after} after {next}");

    let own = ECHO.replace("open: true", &format!("open: true, port: {port}"));
    let (own, data) = (file(dir.path(), "own.yaml", &own), mesh_of("own").to_string_lossy().into_owned());
    let (code, _, errors) = mesh(&["up", "--port", "0", "--data", &data, own.to_str().unwrap()], &[]);
    assert_eq!((code, errors.contains(&port.to_string())), (69, true), "a port of its own: {errors}");
    drop(taken);
}

#[tokio::test]
async fn a_file_that_cannot_be_written_at_the_start_is_an_error_of_the_data() {
    let dir = directory();
    let (team, data) = (file(dir.path(), "team.yaml", ECHO), dir.path().join("data"));
    std::fs::create_dir_all(data.join("run.json.new")).unwrap();
    let (team, data) = (team.to_string_lossy().into_owned(), data.to_string_lossy().into_owned());
    let up = ["up", "--port", "0", "--data", &data, &team];
    let (code, _, errors) = mesh(&up, &[]);
    assert!(code == 74 && errors.contains("run.json"), "{code}: {errors}");
    let (code, _, errors) = mesh(&up, &[("MESH_JOIN", &format!("{team}/join"))]);
    assert!(code == 74 && errors.contains("team.yaml/join"), "{code}: {errors}");
}

#[tokio::test]
async fn a_malformed_request_is_no_error_of_the_operator() {
    let mesh = Process::up_in(&[], ECHO).await;
    let address = mesh.url.trim_start_matches("http://");
    let mut socket = std::net::TcpStream::connect(address).unwrap();
    socket.write_all(b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: nonsense\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(!mesh.log().contains("actix_http"), "{}", mesh.log());
}

/// Waits until the agent answers with `expected`.
async fn answers(node: &Process, agent: &str, expected: &str) {
    eventually(&format!("{agent} says {expected}"), async || {
        let at = node.agent(agent);
        // While it starts again, it refuses.
        let request = at.request(json!({ "description": "who?" })).to_string();
        let answer = at.post_raw(request, &[("prefer", "wait=60")]).await;
        (answer.status == 200 && message(&answer.body) == expected).then_some(())
    })
    .await;
}

#[tokio::test]
async fn agents_whose_files_change_start_again_and_no_others_and_a_fault_changes_nothing() {
    let dir = directory();
    let says = |text: &str| {
        format!(
            "import json, sys\nfor line in sys.stdin:\n    print(json.dumps({{'type': 'done', 'message': '{text}'}}), flush=True)\n"
        )
    };
    let worker = |id: &str| {
        format!(
            "  - {{ agent: {id}, open: true, brain: {{ exec: {{ command: [python3, {id}.py], worker: true }} }} }}\n"
        )
    };
    for id in ["one", "two"] {
        file(dir.path(), &format!("{id}.py"), &says(id));
    }
    let team = format!("agents:\n{}{}", worker("one"), worker("two"));
    let path = file(dir.path(), "team.yaml", &team);
    let args = ["up", "--port", "0", "--profile", "fast", "--watch", &path.to_string_lossy()];
    let node = Process::start(&dir.path().join("data"), &args).await;
    answers(&node, "one", "one").await;
    answers(&node, "two", "two").await;
    file(dir.path(), "one.py", &says("one again"));
    answers(&node, "one", "one again").await;
    file(dir.path(), "team.yaml", &format!("{team}  - {{ agnet: three }}\n"));
    eventually("the fault is told", async || node.log().contains("the agents go on as before").then_some(()))
        .await;
    answers(&node, "one", "one again").await;
    file(
        dir.path(),
        "team.yaml",
        &team.replace("{ agent: two, open", "{ agent: two, description: the second, open"),
    );
    eventually("its card has changed", async || {
        let card = get(&format!("{}/a2a/card", node.agent("two").url)).await;
        card.to_string().contains("the second").then_some(())
    })
    .await;
    answers(&node, "two", "two").await;
    let log = node.log();
    let restarts = |id: &str| log.matches(&format!("the files of {id} have changed")).count();
    assert_eq!((restarts("one"), restarts("two")), (1, 1), "{log}");
}
