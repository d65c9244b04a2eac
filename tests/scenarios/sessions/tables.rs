//! A round table as seed 001 describes it: phases, messages to several, quiet work, and a stage that completes it.

use super::*;

#[tokio::test]
async fn a_table_reaches_whom_it_can_waits_for_quiet_work_and_its_closer_reads_all_that_was_said() {
    let dir = directory();
    let at = dir.path();
    let several = json!({ "type": "say", "to": ["builder-01", "tester-01", "nobody"], "text": "psst" });
    script(
        at,
        json!({
            "fetcher-01": [done("the data")],
            "planner-01 #1": [several, pass("use SQLite")], "planner-01 #2": [done("planned")],
            "builder-01": [{ "type": "pass" }], "builder-01 #4": [done("built")],
            "tester-01": [done("tested")],
            "writer-01": [done("the report")],
        }),
    );
    let names = ["fetcher-01", "planner-01", "builder-01", "tester-01", "writer-01"];
    let running = Process::up(&agents(at, &names)).await;
    let token = running.data.join("token");
    let envs = [("MESH_URL", running.url.as_str()), ("MESH_TOKEN_FILE", token.to_str().unwrap())];
    let graph = file(
        at,
        "phases.yaml",
        "phases:\n  start: [fetcher-01]\n  default: [planner-01, { agent: builder-01, approachable: false }, tester-01]\n  complete: [writer-01]\n",
    );
    let (code, said, errors) = mesh(&["convene", &graph.to_string_lossy(), "Which database?"], &envs);
    assert_eq!(
        (code, said.lines().last()),
        (0, Some("[complete 1] writer-01: the report")),
        "{said}{errors}"
    );
    let prompts = prompts(at);
    let of = |agent: &str| prompts.iter().filter(|prompt| prompt["agent"] == agent).collect::<Vec<_>>();
    assert!(heard(of("tester-01")[0]).contains(&"psst"), "who can be reached is reached");
    assert!(!heard(of("builder-01")[0]).contains(&"psst"));
    let refused = &of("planner-01")[1]["task"]["input"]["seat"]["refused"];
    assert_eq!(
        *refused,
        json!([
            "a message to builder-01 was not delivered: it can't be addressed alone",
            "a message to nobody was not delivered: no such seat here"
        ])
    );
    assert_eq!(of("builder-01").len(), 4, "it works in silence while the others are done");
    let given = heard(of("writer-01")[0]);
    let all = given.iter().find(|text| text.starts_with("What was said to all in stage default")).unwrap();
    assert!(all.contains("[round 1, planner-01]\nuse SQLite") && !all.contains("psst"), "{all}");
    assert!(
        given.iter().any(|text| text.contains("planner-01\n- last words: planned\n- round 1: use SQLite"))
    );
}
