//! What an agent can call: its tool servers with their state, and the tools of each; and how other systems begin its tasks.

use crate::{
    state_mark::{StateTone, mark},
    times,
    viewer::Viewer,
    visible_text::{VisibleText, brief},
};
use maud::{Markup, html};
use protocol::time::WallTime;

/// The most tools of a server that are shown.
const MAX_SHOWN: usize = 200;

/// A tool server.
#[derive(Debug, Clone, Default)]
pub struct ToolServerLine {
    pub name: String,
    /// Its command, its URL, or its folder.
    pub place: String,
    /// For who may know.
    pub status: Option<ToolServerStatus>,
    /// If it takes a login.
    pub login: Option<ToolLoginLine>,
    /// The tools that it has listed last.
    pub tools: Vec<ToolLine>,
    /// Tools that can't be used, and why.
    pub left_out: Vec<(String, String)>,
}

/// Whether a tool server can be called.
#[derive(Debug, Clone)]
pub struct ToolServerStatus {
    pub tone: StateTone,
    pub words: &'static str,
    /// Why it has failed.
    pub why: Option<String>,
    pub failed_at: Option<WallTime>,
    pub last_used: Option<WallTime>,
}

/// The login of the viewer, or of the agent, at a tool server.
#[derive(Debug, Clone)]
pub struct ToolLoginLine {
    pub is_logged_in: bool,
    pub ends: Option<WallTime>,
}

/// A tool.
#[derive(Debug, Clone)]
pub struct ToolLine {
    pub name: String,
    pub description: String,
    pub rule: ToolRule,
}

/// What the rules of the agent say of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolRule {
    Allowed,
    /// A person decides on each call.
    Asked,
    Denied,
}

/// What an agent can call, and what calls it.
#[derive(Debug, Clone, Default)]
pub struct AgentTools {
    /// The kind of its brain, for who may know.
    pub brain: Option<String>,
    pub servers: Vec<ToolServerLine>,
    /// What the mesh gives to its brain.
    pub built_in: Vec<ToolLine>,
    /// The names of the triggers by which other systems begin its tasks.
    pub triggers: Vec<String>,
}

/// The part of the page.
pub(super) fn section(viewer: &Viewer, tools: &AgentTools) -> Markup {
    let AgentTools { brain, servers, built_in, triggers } = tools;
    let is_unknown = brain.is_some() && servers.is_empty() && built_in.is_empty();
    html! {
        section.card {
            header { h2 { "Tools and triggers" } }
            @if let Some(brain) = brain.as_ref().filter(|_| is_unknown) { div.body { p.small.muted { "Its brain (" (brain) ") may have tools of its own, which the node does not know." } } }
            @else if brain.is_none() && servers.is_empty() && triggers.is_empty() { div.empty { p { "No tool server takes a login, and there are no triggers." } } }
            @if !servers.is_empty() || !built_in.is_empty() || !triggers.is_empty() {
                ul.lines {
                    @for server in servers { (line(viewer, server)) }
                    @if !built_in.is_empty() { li data-key="built-in" { div.row { span.chip { "built in" } span.small.muted { "what the mesh gives to a model, each tool in some of its turns" } } (list("built-in", built_in)) } }
                    @for trigger in triggers { li { div.row { span.chip { "trigger" } (VisibleText(trigger)) } } }
                }
            }
        }
    }
}

fn line(viewer: &Viewer, server: &ToolServerLine) -> Markup {
    html! {
        li data-key={ "server-" (server.name) } {
            div.row {
                @if let Some(status) = &server.status { (mark(status.tone, status.words)) }
                strong { (VisibleText(&server.name)) }
                @if let Some(login) = &server.login {
                    (mark(if login.is_logged_in { StateTone::Ok } else { StateTone::Wait }, if login.is_logged_in { "logged in" } else { "no login" }))
                    @if let Some(ends) = login.ends { span.small.muted { "ends " (times::until(viewer.now, ends)) } }
                }
                @if let Some(used) = server.status.as_ref().and_then(|status| status.last_used) { span.small.muted { "last used " (times::since(viewer.now, used)) } }
            }
            span.small.muted.mono { (brief(&server.place, 160)) }
            @if let Some(status) = &server.status {
                @if let Some(why) = &status.why { span.small.is-bad { @if let Some(at) = status.failed_at { (times::since(viewer.now, at)) ": " } (brief(why, 600)) } }
            }
            (list(&server.name, &server.tools))
            @for (tool, why) in server.left_out.iter().take(MAX_SHOWN) { span.small.is-wait { (brief(tool, 80)) " is left out: " (brief(why, 200)) } }
        }
    }
}

fn list(server: &str, tools: &[ToolLine]) -> Markup {
    let asked = tools.iter().filter(|tool| tool.rule == ToolRule::Asked).count();
    html! {
        @if !tools.is_empty() {
            details data-key={ "tools-" (server) } {
                summary.small { (times::counted(tools.len(), "tool")) @if asked > 0 { ", " (asked) " of them ask a person" } }
                ul.lines {
                    @for tool in tools.iter().take(MAX_SHOWN) {
                        li data-key={ "tool-" (server) "-" (tool.name) } {
                            div.row {
                                code { (brief(&tool.name, 120)) }
                                @match tool.rule { ToolRule::Allowed => {}, ToolRule::Asked => (mark(StateTone::Wait, "asks a person")), ToolRule::Denied => (mark(StateTone::Bad, "denied")) }
                            }
                            @if !tool.description.is_empty() { span.small.muted { (brief(&tool.description, 240)) } }
                        }
                    }
                    @if tools.len() > MAX_SHOWN { li { span.small.muted { "and " (tools.len() - MAX_SHOWN) " more" } } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, rule: ToolRule) -> ToolLine {
        ToolLine { name: name.to_owned(), description: "<script>".to_owned(), rule }
    }

    #[test]
    fn a_server_is_shown_with_its_state_and_its_tools_with_their_rules() {
        let status = ToolServerStatus {
            tone: StateTone::Bad,
            words: "failed",
            why: Some("does not speak MCP".to_owned()),
            failed_at: Some(WallTime(0)),
            last_used: None,
        };
        let server = ToolServerLine {
            name: "files".to_owned(),
            place: "npx files".to_owned(),
            status: Some(status),
            tools: vec![tool("read", ToolRule::Allowed), tool("rm", ToolRule::Asked)],
            left_out: vec![("odd".to_owned(), "it has no name".to_owned())],
            ..ToolServerLine::default()
        };
        let tools =
            AgentTools { brain: Some("llm".to_owned()), servers: vec![server], ..AgentTools::default() };
        let shown = section(&Viewer::of_test(true), &tools).into_string();
        for part in [
            "failed",
            "npx files",
            "does not speak MCP",
            "2 tools, 1 of them ask",
            "asks a person",
            "odd is left out",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(!shown.contains("<script>") && !shown.contains("may have tools of its own"), "{shown}");
        let exec = AgentTools { brain: Some("exec".to_owned()), ..AgentTools::default() };
        assert!(section(&Viewer::of_test(true), &exec).into_string().contains("may have tools of its own"));
        let other = section(&Viewer::of_test(true), &AgentTools::default()).into_string();
        assert!(other.contains("No tool server takes a login"), "{other}");
    }
}
