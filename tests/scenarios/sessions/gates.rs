//! Gates: a person decides before the session goes on.

use super::*;

#[tokio::test]
async fn line_52_a_gate_holds_what_follows_until_a_person_approves() {
    let dir = directory();
    let at = dir.path();
    script(
        at,
        json!({
            "lead-01 spec.1.1": [done("a page with passwords")],
            "lead-01 spec.2.1": [done("a page with passkeys")],
            "maker-01": [done("built")],
        }),
    );
    let mut running = Process::up(&agents(at, &["lead-01", "maker-01"])).await;
    let graph = json!({ "stages": [
        { "id": "spec", "seats": ["lead-01"], "gate": ["approve", "revise", "decline"] },
        { "id": "build", "after": ["spec"], "seats": ["maker-01"] },
    ] });
    let lead = running.agent("lead-01");
    lead.send(session("t-1", graph.clone())).await;
    let task = lead.task_in("t-1", &["input_required"]).await;
    assert!(message(&task).contains("a page with passwords"), "{task:#}");
    let inbox = running.as_person(&["inbox"]).await.1;
    assert!(inbox.contains("a page with passwords") && !inbox.contains("call:"), "{inbox}");
    let shown = view(&running, "lead-01", "t-1").await;
    assert_eq!(shown["stages"][0]["state"], "gated", "{shown:#}");
    // Neither words nor a loopback caller without the person's token get past it.
    let answer = format!("{}/a2a/tasks/t-1/answer", lead.url);
    let asked = &task["metadata"][EXTENSION]["questions"][0];
    let question = asked["id"].as_str().unwrap().to_owned();
    let words = lead.call_on_task(Method::POST, "t-1", "/answer", Some(&json!({ "text": "approve" }))).await;
    assert_eq!(words.status, 409, "{words:?}");
    let decision = json!({ "questionId": question, "decision": "approve" });
    let nobody = call(Method::POST, &answer, Some(&decision)).await;
    assert_eq!(nobody.status, 404, "{nobody:?}");
    running.kill();
    let running = running.restart().await;
    let token = running.data.join("token");
    let person = |args: &[&str]| {
        let envs = [("MESH_URL", running.url.as_str()), ("MESH_TOKEN_FILE", token.to_str().unwrap())];
        mesh(args, &envs)
    };
    let (code, _, errors) = person(&["answer", "t-1", "--deny", "--reason", "no passwords"]);
    assert_eq!(code, 0, "{errors}");
    let lead = running.agent("lead-01");
    let task = eventually("the revised page", async || {
        let task = lead.task_in("t-1", &["input_required"]).await;
        message(&task).contains("passkeys").then_some(task)
    })
    .await;
    assert_eq!(heard(&prompts(at)[1]), ["a page with passwords", "no passwords"], "{task:#}");
    assert_eq!(turns(at), ["lead-01 spec.1.1", "lead-01 spec.2.1"], "nothing is built yet");
    // Who comes too late is told who has decided, when, and what is asked now.
    let late = |question: &str| {
        let decision = json!({ "questionId": question, "decision": "approve" });
        let lead = &lead;
        async move {
            // While a write of the task is under way the answer is 503, to be sent again.
            let answer = eventually("the answer to be refused", async || {
                let answer = lead.call_on_task(Method::POST, "t-1", "/answer", Some(&decision)).await;
                (answer.status != 503).then_some(answer)
            })
            .await;
            assert_eq!(refusal(&answer), (409, "not_awaiting_answer".to_owned()), "{answer:?}");
            refusal_text(&answer)
        }
    };
    let first = late(&question).await;
    let open = task["metadata"][EXTENSION]["questions"][0]["id"].as_str().unwrap();
    let by = format!("{question} was denied by user:");
    assert!(first.contains(&by) && first.contains(" at 20") && first.contains(open), "{first}");
    let (code, _, errors) = person(&["answer", "t-1", "--approve"]);
    assert_eq!(code, 0, "{errors}");
    let task = lead.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("completed", "built"), "{task:#}");
    let last = late(open).await;
    assert!(last.contains("has ended") && last.contains(&format!("{open} was approved by user:")), "{last}");
    let (_, shown, _) = person(&["tasks", "show", "t-1"]);
    assert!(shown.contains("[spec 1] lead-01:") && shown.contains("[spec#2 1] lead-01:"), "{shown}");
    lead.send(session("t-2", graph)).await;
    lead.task_in("t-2", &["input_required"]).await;
    assert_eq!(person(&["answer", "t-2", "--deny"]).0, 0);
    let task = lead.task_in("t-2", &["completed", "failed"]).await;
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("failed", "declined at stage spec"));
}
