//! Bulk actions with tasks: what they would do, what they do, and with whose tasks.

use super::{Page, alice, link, up};
use crate::harness::{eventually, read_answer, refusal};
use reqwest::{Method, header::CONTENT_TYPE};

/// Sends the form of the preview at `query`, as it is. Returns the address of the page of the action.
async fn confirm(page: &Page, query: &str) -> String {
    let preview = page.view(query).await;
    let fields: Vec<_> = preview
        .split("<input type=\"hidden\" name=\"")
        .skip(1)
        .filter_map(|rest| {
            let (name, rest) = rest.split_once("\" value=\"")?;
            Some((name, rest.split('"').next()?))
        })
        .collect();
    let begun = page.form("bulk", &fields).await;
    assert_eq!(begun.status, 204, "{begun:?}");
    begun.headers["mesh-console-go"].to_str().unwrap().strip_prefix('?').unwrap().to_owned()
}

#[tokio::test]
async fn tasks_are_canceled_and_sent_again_together_after_they_were_shown() {
    let mesh = up().await;
    let (person, alice) = (Page::of_link(&link(&mesh, &[]).await).await, alice(&mesh.url).await);
    let front = mesh.agent("front-01");
    let mut mine = Vec::new();
    for _ in 0..3 {
        let (task, _) = person.send("which size <script>").await;
        front.task_in(&task, &["input_required"]).await;
        mine.push(task);
    }
    let (hers, _) = alice.send("which size of alice").await;
    eventually("alice is asked", async || {
        alice.view("view=inbox").await.contains("data-waiting=\"1\"").then_some(())
    })
    .await;
    let list = person.view("view=tasks&text=size").await;
    assert!(
        list.contains("view=bulk") && list.contains("kind=cancel") && list.contains("text=size"),
        "{list}"
    );
    let query = "view=bulk&kind=cancel&text=size";
    let preview = person.view(query).await;
    assert!(preview.contains("Cancel 3 tasks") && !preview.contains(&hers), "{preview}");
    assert!(!preview.contains("<script"), "{preview}");
    for task in &mine {
        front.task_in(task, &["input_required"]).await;
    }
    assert_eq!(person.get("console/view?view=bulk&kind=remove").await.status, 400);
    // No other page confirms it, nor nobody.
    let body = format!("verb=cancel&task=front-01%2F{}", mine[0]);
    let form = |page: &Page, origin: &str| {
        let request = page.request(Method::POST, "console/bulk").header("origin", origin);
        request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(body.clone()).send()
    };
    let foreign = read_answer(form(&person, "http://127.0.0.1:1").await.unwrap()).await;
    assert_eq!(refusal(&foreign), (403, "foreign_origin".to_owned()));
    let nobody = Page::signed_out(&mesh.url);
    assert_eq!(form(&nobody, &mesh.url).await.unwrap().status().as_u16(), 401);
    for fields in
        [vec![("verb", "cancel")], vec![("verb", "cancel"), ("task", "no-agent")], vec![("task", "a/b")]]
    {
        let bad = person.form("bulk", &fields).await;
        assert_eq!(refusal(&bad), (400, "invalid_field".to_owned()), "{fields:?}");
    }
    let run = confirm(&person, query).await;
    let shown = eventually("all are told to end", async || {
        let shown = person.view(&run).await;
        shown.contains("3 of 3 done.").then_some(shown)
    })
    .await;
    assert_eq!(shown.matches("is told to end").count(), 3, "{shown}");
    for task in &mine {
        front.task_in(task, &["canceled"]).await;
    }
    assert_eq!(alice.get(&format!("console/view?{run}")).await.status, 400, "it is the person's");
    // A forged form acts with the rights of its sender.
    let (forged, own) = (format!("front-01/{}", mine[0]), format!("front-01/{hers}"));
    let begun = alice.form("bulk", &[("verb", "cancel"), ("task", &forged), ("task", &own)]).await;
    let run = begun.headers["mesh-console-go"].to_str().unwrap().strip_prefix('?').unwrap().to_owned();
    let shown = eventually("hers is told to end", async || {
        let shown = alice.view(&run).await;
        shown.contains("2 of 2 done, 1 failed").then_some(shown)
    })
    .await;
    assert!(shown.contains("of yours is known here"), "{shown}");
    // They are sent again.
    let run = confirm(&person, "view=bulk&kind=retry&state=canceled").await;
    eventually("all are sent again", async || {
        let shown = person.view(&run).await;
        (shown.matches("the new task").count() == 3).then_some(())
    })
    .await;
    eventually("they ask again", async || {
        person.view("view=inbox").await.contains("data-waiting=\"3\"").then_some(())
    })
    .await;
}
