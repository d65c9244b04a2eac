//! A stage that has failed, in a session with people.

use super::*;

#[tokio::test]
async fn a_person_decides_about_a_failed_stage_also_after_a_crash() {
    let dir = directory();
    let at = dir.path();
    let fails = json!([{ "type": "failed", "reason": "no disk" }]);
    script(
        at,
        json!({
            "lead-01": [done("the plan")], "maker-01 #1": fails, "maker-01 #2": fails, "maker-01": [done("built")],
        }),
    );
    let mut running = Process::up(&agents(at, &["lead-01", "maker-01"])).await;
    let graph = json!({ "stages": [
        { "id": "build", "seats": ["maker-01"] },
        { "id": "end", "after": ["build"], "seats": ["lead-01"], "gate": ["approve", "decline"] },
    ] });
    running.agent("lead-01").send(session("t-1", graph)).await;
    let task = running.agent("lead-01").task_in("t-1", &["input_required", "failed"]).await;
    assert!(message(&task).contains("stage build failed: maker-01: no disk"), "{task:#}");
    running.kill();
    let running = running.restart().await;
    let (code, inbox, errors) = running.as_person(&["inbox"]).await;
    assert!(code == 0 && inbox.contains("retry") && inbox.contains("no disk"), "{inbox}{errors}");
    let (code, _, errors) = running.as_person(&["answer", "t-1", "perhaps"]).await;
    assert!(code != 0 && errors.contains("retry, skip, stop"), "{errors}");
    let (code, _, errors) = running.as_person(&["answer", "t-1", "retry"]).await;
    assert_eq!(code, 0, "{errors}");
    let lead = running.agent("lead-01");
    eventually("the gate of the end", async || {
        message(&lead.task_in("t-1", &["input_required"]).await).contains("stage end ended").then_some(())
    })
    .await;
    let expected = ["maker-01 build.1.1", "maker-01 build.1.1", "maker-01 build.2.1", "lead-01 end.1.1"];
    assert_eq!(turns(at), expected);
    let (code, _, errors) = running.as_person(&["answer", "t-1", "--approve"]).await;
    assert_eq!(code, 0, "{errors}");
    let task = lead.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    let shown = view(&running, "lead-01", "t-1").await;
    assert!(shown["notes"].to_string().contains("stage build failed and begins again"), "{shown:#}");
}
