//! Kinds of messages are matched by the codec, by validation and by the patterns. Other code asks the registry of patterns.

use std::collections::BTreeMap;

/// The lines outside of `protocol` that name a kind of message, by file. Not to grow: a new kind of message is added in
/// `protocol`. A line removed here is removed for good.
const NAMED: &[(&str, usize, &str)] = &[
    ("agent-node/engine/src/agent/begin.rs", 2, "what the row of a conversation keeps of the request"),
    ("agent-node/engine/src/agent/quotas.rs", 2, "a request and an award may need a share of a quota"),
    ("agent-node/engine/src/agent/messages.rs", 2, "calls end with a drain; help may come back on its path"),
    ("agent-node/engine/src/conversation/effects.rs", 1, "answers to these name the effect that they answer"),
    ("agent-node/engine/src/bids.rs", 2, "the answer to a call"),
    ("agent-node/engine/src/agent/incoming.rs", 6, "calls are answered at once; owners cancel and answer"),
    ("agent-node/engine/src/agent/requests.rs", 4, "a pattern is built from the message that opens it"),
    ("agent-node/engine/src/agent/requests/known_tasks.rs", 1, "a cancel may arrive before its award"),
    (
        "agent-node/engine/src/agent/requests/peer_requests.rs",
        2,
        "a request is built from the message that asks for it",
    ),
    ("agent-node/engine/src/agent/requests/task_requests.rs", 1, "uploaded artifacts of a request are kept"),
    ("agent-node/engine/src/agent/steps.rs", 2, "rounds and awards are counted"),
    ("agent-node/src/agent/attempts.rs", 1, "the answer to a call is in its response"),
    ("agent-node/src/agent/observations.rs", 1, "bids are counted"),
    ("agent-node/src/http/a2a/send.rs", 1, "builds a request from A2A"),
    ("agent-node/src/http/routes/traces/collect.rs", 1, "a trace goes on at the receiver of a request"),
    ("agent-node/src/inbox.rs", 1, "builds a request of a schedule or trigger"),
    ("agent-node/src/outbox/webhooks.rs", 1, "builds the body of a callback"),
    ("agent-node/src/telemetry/span_builder/bid_spans.rs", 3, "calls and bids have spans without a journal"),
    ("agent-node/src/telemetry/span_builder/effect_spans.rs", 1, "spans of one call share a parent"),
    ("agent-node/src/telemetry/span_builder/span_content.rs", 16, "attributes of a span by kind"),
];

fn names_a_kind(line: &str) -> bool {
    ["Payload::", "MessageKind::"].iter().any(|owner| {
        let code = line.split("//").next().unwrap_or_default();
        code.split(owner).skip(1).any(|rest| {
            let name: Vec<char> = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            // A variant, and not a function or the list `ALL`. `BodyPayload::None` is another type.
            name.len() > 1 && name[0].is_uppercase() && name[1].is_lowercase() && !rest.starts_with("None")
        })
    })
}

#[test]
fn few_lines_outside_of_patterns_match_on_kinds_of_messages() {
    let mut found = BTreeMap::new();
    for folder in ["agent-node/engine/src", "agent-node/src", "blackboard/src", "registry/src"] {
        for (path, text) in crate::read_sources(folder) {
            let is_for_tests = ["tests.rs", "testing.rs"].iter().any(|name| path.ends_with(name));
            if is_for_tests || path.contains("/tests/") {
                continue;
            }
            let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
            let lines = code.lines().filter(|line| names_a_kind(line)).count();
            if lines > 0 {
                let (_, file) = path.split_once(&format!("{folder}/")).unwrap();
                found.insert(format!("{folder}/{file}"), lines);
            }
        }
    }
    let expected = NAMED.iter().map(|(path, lines, _)| ((*path).to_owned(), *lines)).collect();
    assert_eq!(found, expected, "found and expected differ");
}
