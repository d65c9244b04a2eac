//! The routes of the console.

use super::Description;
use serde_json::{Value, json};

const HTML: &str = "text/html";

impl Description {
    fn html(self) -> Self {
        self.with(200, (HTML, json!({ "type": "string" })))
    }

    /// A form with these fields.
    fn takes_form(self, required: &[&str], optional: &[&str]) -> Self {
        let fields =
            required.iter().chain(optional).map(|name| ((*name).to_owned(), json!({ "type": "string" })));
        let properties: serde_json::Map<String, Value> = fields.collect();
        let schema = json!({ "type": "object", "required": required, "properties": properties });
        Self { body: Some(("application/x-www-form-urlencoded", schema)), ..self }
    }

    /// The address of a view.
    fn of_view(self) -> Self {
        let views = json!({ "enum": [
            "start", "inbox", "tasks", "task", "bulk", "chat", "sessions", "session", "board", "space", "brief", "agents", "mesh", "agent", "cost",
            "health",
        ] });
        let texts = [
            "id",
            "agent",
            "state",
            "capability",
            "requester",
            "text",
            "waiting_for",
            "space",
            "session",
            "min_cost",
            "kind",
            "since",
            "before",
        ];
        texts.into_iter().fold(self.query("view", views), |description, name| {
            description.query(name, json!({ "type": "string" }))
        })
    }
}

/// The description of a route of the console.
pub(super) fn describe(method: &str, path: &str) -> Option<Description> {
    let of = Description::new;
    Some(match (method, path) {
        ("GET", "/") => of("Shows a browser the page of the console, and tells a program what this is.")
            .with(200, ("*/*", json!({ "type": "string" }))),
        ("GET", "/console/assets/{name}") => {
            of("Returns a file of the console.").with(200, ("*/*", json!({ "type": "string" })))
        }
        ("GET", "/console/view") => of("Shows a view of the console, without the frame.").of_view().html(),
        ("GET", "/console/file") => ["agent", "task", "artifact", "part"]
            .into_iter()
            .fold(of("Returns a part of an artifact of a task, to be saved as a file."), |description, name| {
                description.query(name, json!({ "type": "string" }))
            })
            .with(200, ("application/octet-stream", json!({ "type": "string", "format": "binary" }))),
        ("GET", "/console/stream") => of("Tells a page of the console what has changed.").of_view().streams(),
        ("POST", "/console/session") => {
            of("Signs a browser in: by the code of a link, or by the credential of the request.")
                .takes(json!({ "type": "object", "properties": { "code": { "type": "string" } } }))
                .answers(200, &["key", "who"])
        }
        ("POST", "/console/links") => of("Makes the code of a link that signs a browser in, for a person.")
            .takes(json!({ "type": "object" }))
            .answers(201, &["code"]),
        ("DELETE", "/console/sessions") => {
            of("Ends all sessions of the caller at the console of this process.").answers(200, &["ended"])
        }
        ("POST", "/console/sign-out") => {
            of("Ends the session of the page.").takes(json!({ "type": "object" })).done()
        }
        ("POST", "/console/send") => {
            of("Sends a task.").takes_form(&["description"], &["agent", "capability"]).done()
        }
        ("POST", "/console/say") => {
            of("Says something in a chat.").takes_form(&["context", "text"], &["agent"]).done()
        }
        ("POST", "/console/answer") => of("Answers a question of a task.")
            .takes_form(
                &["task", "question"],
                &["agent", "text", "choice", "decision", "reason", "arguments"],
            )
            .done(),
        ("POST", "/console/entry") => {
            of("Merges, rejects, archives, withdraws or accepts an entry of a space, or puts a new decision in its place.")
                .takes_form(&["entry", "change"], &["space", "version", "reason", "title", "content", "type"])
                .done()
        }
        ("POST", "/console/post") => of("Posts an entry to a space: `what` is its kind, or `KIND/TYPE`.")
            .takes_form(&["what", "content"], &["space", "title"])
            .done(),
        ("POST", "/console/redrive") => of("Sends a dead letter of an agent again.")
            .takes_form(&["message"], &["agent"])
            .done(),
        ("POST", "/console/steer") => of("Steers a session by a directive.")
            .takes_form(&["task", "verb"], &["agent", "stage", "seat", "text"])
            .done(),
        ("POST", "/console/elsewhere") => {
            of("Goes to a page of the console of an agent in another process, signed in there.")
                .takes_form(&["agent"], &["to"])
                .done()
        }
        ("POST", "/console/bulk") => {
            of("Cancels up to 200 tasks, or sends them again.").takes_form(&["verb", "task"], &[]).done()
        }
        ("POST", "/console/cancel") => of("Ends a task.").takes_form(&["task"], &["agent", "reason"]).done(),
        ("POST", "/console/retry") => {
            of("Sends a task again, as a new one that names it.").takes_form(&["task"], &["agent"]).done()
        }
        _ => return None,
    })
}
