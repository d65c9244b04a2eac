//! The address of a view: everything that decides what it shows, so that it can be shared.

use serde::{Deserialize, Serialize};

/// The views.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ViewName {
    #[default]
    Start,
    Inbox,
    Tasks,
    Task,
    Bulk,
    Chat,
    Sessions,
    Session,
    Board,
    Space,
    Brief,
    Agents,
    Mesh,
    Agent,
    Cost,
    Health,
}

impl ViewName {
    /// Its name in an address.
    pub fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Inbox => "inbox",
            Self::Tasks => "tasks",
            Self::Task => "task",
            Self::Bulk => "bulk",
            Self::Chat => "chat",
            Self::Sessions => "sessions",
            Self::Session => "session",
            Self::Board => "board",
            Self::Space => "space",
            Self::Brief => "brief",
            Self::Agents => "agents",
            Self::Mesh => "mesh",
            Self::Agent => "agent",
            Self::Cost => "cost",
            Self::Health => "health",
        }
    }
}

/// The query of a page. A member that is empty is not set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConsoleLocation {
    pub view: ViewName,
    /// The task or session, the context of a chat, the space, also of a brief, a bulk action that runs; of signals, their task.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The agent at which it is looked for, where a page shows several; of signals, their sender; of a brief, whose it is.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub agent: String,
    /// Of tasks: a state, or a group of states.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub state: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub capability: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub requester: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Of tasks: what they wait for: `person`, `place`, `agent`, or the id of an agent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub waiting_for: String,
    /// Of tasks: their space.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub space: String,
    /// Of a brief: the session as whose seat the agent is given it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session: String,
    /// Of tasks: what they have cost at least.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub min_cost: String,
    /// Of signals their type, of entries their kind, of costs what they are summed up by, of a bulk action its verb.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Since when costs are summed up, and since when the status of tasks has changed: `1d`, `7d`, `30d`, `90d`; of costs the first of
    /// the month if it is not set.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub since: String,
    /// Where the page begins. Of tasks: only those whose status changed before this time, milliseconds since the epoch. Of signals:
    /// only those before this revision, or before this time such as `2026-11-29T20:00`, UTC. Of entries: a cursor of the board.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub before: String,
}

impl ConsoleLocation {
    /// The view without anything else.
    pub fn of(view: ViewName) -> Self {
        Self { view, ..Self::default() }
    }

    /// A task at an agent.
    pub fn task(agent: &str, id: &str) -> Self {
        Self { view: ViewName::Task, id: id.to_owned(), agent: agent.to_owned(), ..Self::default() }
    }

    /// A session at its host.
    pub fn session(agent: &str, id: &str) -> Self {
        Self { view: ViewName::Session, ..Self::task(agent, id) }
    }

    /// The page of an agent.
    pub fn agent(id: &str) -> Self {
        Self { agent: id.to_owned(), ..Self::of(ViewName::Agent) }
    }

    /// A space.
    pub fn space(id: &str) -> Self {
        Self { id: id.to_owned(), ..Self::of(ViewName::Space) }
    }

    /// The brief of an agent in a space.
    pub fn brief(space: &str, agent: &str) -> Self {
        Self { view: ViewName::Brief, agent: agent.to_owned(), ..Self::space(space) }
    }

    /// An entry of a space, among those of its kind. `text` is its short id.
    pub fn entry(space: &str, kind: &str, text: &str) -> Self {
        Self { kind: kind.to_owned(), text: text.to_owned(), ..Self::space(space) }
    }

    /// A chat with an agent.
    pub fn chat(agent: &str, context: &str) -> Self {
        Self { view: ViewName::Chat, id: context.to_owned(), agent: agent.to_owned(), ..Self::default() }
    }

    /// The query of an address. Fails with what is wrong.
    pub fn parse(query: &str) -> Result<Self, String> {
        serde_html_form::from_str(query).map_err(|error| error.to_string())
    }

    /// The link to it, relative to any page of the console.
    pub fn href(&self) -> String {
        format!("?{}", serde_html_form::to_string(self).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_back_to_what_it_was_made_of() {
        let location = ConsoleLocation {
            view: ViewName::Tasks,
            state: "open".to_owned(),
            text: "a&b=c \u{202e}<script>".to_owned(),
            ..ConsoleLocation::default()
        };
        let href = location.href();
        assert!(!href.contains('<') && !href.contains('\u{202e}'), "{href}");
        assert_eq!(ConsoleLocation::parse(href.strip_prefix('?').unwrap_or_default()), Ok(location));
        assert_eq!(ConsoleLocation::parse(""), Ok(ConsoleLocation::of(ViewName::Start)));
        assert!(ConsoleLocation::parse("view=nowhere").is_err());
        assert!(ConsoleLocation::parse("view=tasks&sql=1").is_err());
    }
}
