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
    Chat,
    Agents,
}

impl ViewName {
    /// Its name in an address.
    pub fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Inbox => "inbox",
            Self::Tasks => "tasks",
            Self::Task => "task",
            Self::Chat => "chat",
            Self::Agents => "agents",
        }
    }
}

/// The query of a page. A member that is empty is not set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConsoleLocation {
    pub view: ViewName,
    /// The task, or the context of a chat.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The agent at which it is looked for, where a page shows several.
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
    /// Only tasks whose status changed before this time, milliseconds since the epoch: the next page.
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
