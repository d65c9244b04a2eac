//! Spaces in the console: the brief of an agent and why it is so, and what a person adds and replaces.

use super::{Page, alice, link, up};
use crate::harness::refusal;
use reqwest::Method;
use serde_json::{Value, json};

const HOSTILE: &str = "</textarea><script>alert(1)</script>\u{202e}";

/// The id and the version of the first entry in `view` that has a form of this kind.
fn first_entry(view: &str, change: &str) -> (String, String) {
    let value = |form: &str, name: &str| {
        let rest = form.split(&format!("name=\"{name}\" value=\"")).nth(1)?;
        Some(rest.split('"').next()?.to_owned())
    };
    let mut forms = view.split("<form ").filter(|form| form.contains(&format!("value=\"{change}\"")));
    let form = forms.next().unwrap_or_else(|| panic!("no {change}: {view}"));
    (value(form, "entry").unwrap(), value(form, "version").unwrap())
}

#[tokio::test]
async fn a_person_adds_a_decision_replaces_it_and_sees_it_in_the_brief_with_the_reason() {
    let mesh = up().await;
    let (person, alice) = (Page::of_link(&link(&mesh, &[]).await).await, alice(&mesh.url).await);
    let space = person.view("view=space").await;
    assert!(space.contains("value=\"decision/scope\"") && space.contains("value=\"finding\""), "{space}");
    let hers = alice.view("view=space").await;
    assert!(hers.contains("value=\"finding\"") && !hers.contains("value=\"decision/scope\""), "{hers}");
    let post = async |page: &Page, what: &str, content: &str| {
        page.form("post", &[("space", "default"), ("what", what), ("title", HOSTILE), ("content", content)])
            .await
    };
    assert_eq!(post(&person, "decision/scope", "We send mail.").await.status, 204);
    assert_eq!(post(&alice, "finding", "The port is taken.").await.status, 204);
    let refused = post(&alice, "decision/scope", "Hers.").await;
    assert_eq!(refusal(&refused), (403, "forbidden".to_owned()));
    for what in ["", "nonsense", "decision/learning", "decision/nonsense"] {
        assert_eq!(refusal(&post(&person, what, "x").await), (400, "invalid_field".to_owned()), "{what}");
    }
    assert_eq!(refusal(&post(&person, "finding", " ").await), (400, "invalid_field".to_owned()));

    // Who may read it sees the brief, and why each part is in it.
    let at = "view=brief&id=default&agent=front-01";
    for page in [&person, &alice] {
        let brief = page.view(at).await;
        for part in [
            "Decisions. They bind",
            "We send mail.",
            "in force of type scope",
            "The port is taken.",
            "one of the latest 15 findings",
            "view=space&amp;id=default&amp;",
            "mesh brief front-01",
        ] {
            assert!(brief.contains(part), "{part}: {brief}");
        }
        assert!(!brief.contains("<script") && !brief.contains('\u{202e}'), "{brief}");
    }
    let link = person.view(at).await;
    let link =
        link.split("href=\"?view=space&amp;id=default&amp;").nth(1).unwrap().split('"').next().unwrap();
    let entry = person.view(&format!("view=space&id=default&{}", link.replace("&amp;", "&"))).await;
    assert!(entry.contains("We send mail.") && !entry.contains("The port is taken."), "{link}: {entry}");
    let agent = person.view("view=agent&agent=front-01").await;
    assert!(agent.contains("view=brief&amp;id=default&amp;agent=front-01"), "{agent}");
    assert!(person.view("view=brief").await.contains("Choose an agent."));
    for (query, status) in
        [("&id=no-such", 404), ("&agent=..%2F", 400), ("&agent=front-01&session=%20%2F", 400)]
    {
        let answer = person.get(&format!("console/view?view=brief{query}")).await;
        assert_eq!(answer.status, status, "{query}: {answer:?}");
    }
    let nobody = Page::signed_out(&mesh.url);
    assert_eq!(nobody.get(&format!("console/view?{at}")).await.status, 401);

    // A decision is replaced as it was read.
    let (old, version) = first_entry(&person.view("view=space").await, "supersede");
    assert!(!alice.view("view=space").await.contains("value=\"supersede\""));
    let supersede = async |page: &Page, version: &str| {
        let fields = [
            ("space", "default"),
            ("entry", &*old),
            ("version", version),
            ("change", "supersede"),
            ("type", "scope"),
            ("title", "no mail"),
            ("content", "We send no mail."),
            ("reason", "it cost too much"),
        ];
        page.form("entry", &fields).await
    };
    assert_eq!(refusal(&supersede(&alice, &version).await), (403, "forbidden".to_owned()));
    assert_eq!(refusal(&supersede(&person, "7").await), (409, "space_changed".to_owned()));
    let entries = format!("{}/board/spaces/default/entries?kind=decision", mesh.url);
    let decisions = async || {
        let page = mesh.call_as_person(Method::GET, &entries, None).await;
        page.body["entries"].as_array().cloned().unwrap_or_default()
    };
    assert_eq!(decisions().await.len(), 1, "what was refused has left nothing");
    let done = supersede(&person, &version).await;
    assert_eq!(done.status, 204, "{done:?}");
    let all = decisions().await;
    let of_state = |state: &str| {
        let found: Vec<&Value> = all.iter().filter(|entry| entry["state"] == state).collect();
        assert_eq!(found.len(), 1, "{all:#?}");
        found[0].clone()
    };
    let (replaced, new) = (of_state("superseded"), of_state("active"));
    assert_eq!(
        (&replaced["id"], &replaced["reason"], &replaced["links"]["supersededBy"]),
        (&json!(old), &json!("it cost too much"), &new["id"])
    );
    assert_eq!((&new["type"], &new["author"]), (&json!("scope"), &json!("user:local")));
    let again = supersede(&person, &version).await;
    assert_eq!(refusal(&again), (409, "entry_state".to_owned()));
    let brief = person.view(at).await;
    assert!(brief.contains("We send no mail.") && !brief.contains("We send mail."), "{brief}");
    // The terminal shows the same.
    let (code, out, errors) = mesh.as_person(&["brief", "front-01", "--why"]).await;
    assert!(code == 0 && out.contains("in force of type scope") && out.contains("no mail"), "{out}{errors}");
}
