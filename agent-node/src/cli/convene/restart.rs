//! `mesh convene --from TASK`: the graph of a session begins again in a new one, which is given what was said to all.

use super::{
    super::{client::MeshClient, endpoints::AgentEndpoint, exit::CliError, exit::Exit, located_task},
    session_lines::speech,
};
use crate::cli::client::encoded;
use patterns::session::names::{SESSION, TEAM};
use protocol::routes;
use serde_json::{Value, json};

/// The most bytes of what was said that the new session is given; the newest are kept.
const MAX_SAID: usize = 64 * 1024;

/// What a new session takes over.
pub(super) struct RestartedSession {
    /// The graph, with the name of the session that it is from.
    pub(super) graph: Value,
    pub(super) goal: String,
    /// What was said to all, a message after the other.
    said: String,
    task: String,
}

/// Reads the session that the task is. It may have ended.
pub(super) async fn read(
    client: &MeshClient,
    endpoints: &[AgentEndpoint],
    task: &str,
) -> Result<RestartedSession, CliError> {
    let found = located_task::find(client, endpoints, task).await?;
    let task = &found.id();
    let path = format!("{}/{}/session", routes::TASKS, encoded(task));
    let session: Value = client.get(&found.endpoint, &path).await?;
    let mut graph = session["input"].clone();
    let Some(members) = graph.as_object_mut() else {
        return Err(CliError::new(Exit::Refused, format!("task {task} is no session")));
    };
    members.insert("restartedFrom".to_owned(), json!(task));
    // Every seat of the new session is given it: what was for some seats of the old one is not.
    let is_for_all = |artifact: &&Value| artifact["metadata"][SESSION]["to"] == json!([TEAM]);
    let artifacts = found.task["artifacts"].as_array().into_iter().flatten().filter(is_for_all);
    let (said, task) = (newest(artifacts.filter_map(speech).collect()), task.to_owned());
    let goal = session["session"]["goal"].as_str().unwrap_or_default().to_owned();
    Ok(RestartedSession { graph, goal, said, task })
}

impl RestartedSession {
    /// Stores what was said at the agent that hosts the new session; returns the references for its request.
    pub(super) async fn store(&self, client: &MeshClient, endpoint: &str) -> Result<Vec<Value>, CliError> {
        if self.said.is_empty() {
            return Ok(Vec::new());
        }
        let stored = client.upload(endpoint, routes::ARTIFACTS, self.said.clone()).await?;
        let name = format!("said-in-{}", self.task);
        Ok(vec![json!({ "name": name, "sha256": stored["sha256"], "mediaType": "text/plain" })])
    }
}

/// The last lines, as many as fit, and how many are not there.
fn newest(mut lines: Vec<String>) -> String {
    let mut kept = Vec::new();
    let mut bytes = 0;
    while let Some(line) = lines.pop() {
        bytes += line.len() + 1;
        if bytes > MAX_SAID {
            kept.push(format!("[{} earlier messages are left out]", lines.len() + 1));
            break;
        }
        kept.push(line);
    }
    kept.reverse();
    kept.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_are_kept_and_what_is_left_out_is_counted() {
        assert_eq!(newest(vec!["one".into(), "two".into()]), "one\ntwo");
        let long = "x".repeat(MAX_SAID - 4);
        assert_eq!(
            newest(vec!["one".into(), "two".into(), long.clone()]),
            format!("[2 earlier messages are left out]\n{long}")
        );
        assert_eq!(newest(Vec::new()), "");
    }
}
