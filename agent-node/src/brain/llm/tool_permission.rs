//! Which tools of a server a model may call.

pub(super) use crate::brain::brain_tools::ToolPermission;

/// The rules of a server. Each is a name, or a pattern in which `*` stands for any text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolPermissions {
    /// What is never called.
    pub deny: Vec<String>,
    /// What a person decides on, at every call.
    pub ask: Vec<String>,
    /// What is called; everything if `None`.
    pub allow: Option<Vec<String>>,
}

impl ToolPermissions {
    /// `deny` beats `ask`, and `ask` beats `allow`. What no rule names is hidden if there is an `allow`.
    pub(super) fn of(&self, tool: &str) -> ToolPermission {
        let has = |rules: &[String]| rules.iter().any(|rule| fits(rule, tool));
        if has(&self.deny) {
            ToolPermission::Denied
        } else if has(&self.ask) {
            ToolPermission::Asked
        } else if self.allow.as_deref().is_none_or(has) {
            ToolPermission::Allowed
        } else {
            ToolPermission::Hidden
        }
    }

    /// The names without a pattern that a server should have.
    pub(super) fn named(&self) -> impl Iterator<Item = &String> {
        self.allow.iter().flatten().chain(&self.ask).filter(|rule| !rule.contains('*'))
    }
}

/// Whether `tool` is what `rule` says.
fn fits(rule: &str, tool: &str) -> bool {
    let Some((begin, rest)) = rule.split_once('*') else { return rule == tool };
    let Some(tool) = tool.strip_prefix(begin) else { return false };
    if rest.is_empty() {
        return true;
    }
    tool.char_indices().map(|(at, _)| at).chain([tool.len()]).any(|at| fits(rest, &tool[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_pattern_fits_what_its_stars_leave_open() {
        for (rule, tool) in [
            ("a", "a"),
            ("*", ""),
            ("*", "x"),
            ("git_*", "git_log"),
            ("*_all", "drop_all"),
            ("a*b*c", "aXbYc"),
        ] {
            assert!(fits(rule, tool), "{rule} {tool}");
        }
        for (rule, tool) in
            [("a", "ab"), ("git_*", "xgit_log"), ("*_all", "drop_all_"), ("a*b*c", "acb"), ("", "a")]
        {
            assert!(!fits(rule, tool), "{rule} {tool}");
        }
    }

    #[test]
    fn deny_beats_ask_and_ask_beats_allow() {
        let both = ToolPermissions {
            deny: rules(&["drop_*"]),
            ask: rules(&["*_all", "push"]),
            allow: Some(rules(&["get", "push", "drop_it", "get_all"])),
        };
        for (tool, expected) in [
            ("get", ToolPermission::Allowed),
            ("push", ToolPermission::Asked),
            ("get_all", ToolPermission::Asked),
            ("drop_it", ToolPermission::Denied),
            ("drop_all", ToolPermission::Denied),
            ("other", ToolPermission::Hidden),
        ] {
            assert_eq!(both.of(tool), expected, "{tool}");
        }
        assert_eq!(ToolPermissions::default().of("other"), ToolPermission::Allowed);
        assert_eq!(both.named().collect::<Vec<_>>(), ["get", "push", "drop_it", "get_all", "push"]);
    }
}
