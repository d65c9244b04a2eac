//! What the servers of models have refused, and how they are asked since. A refusal that names a member is answered by leaving it out,
//! unless a person has set it; what has helped is remembered for a day.

use super::{
    model::{ModelError, ModelErrorKind, ModelMessage, ModelRequest},
    provider::Dialect,
    request_form::{Learned, OWN_MEMBERS, RequestForm},
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::{LazyLock, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How long it is remembered.
const REMEMBERED: Duration = Duration::from_secs(24 * 3_600);
/// The most servers that are remembered.
const MAX_SERVERS: usize = 1_000;
/// How often one request is changed before its refusal counts.
pub(super) const MAX_CHANGES: usize = 8;

/// The members with reasoning that a server may want back, the longest name first.
const REASONING: [&str; 3] = ["reasoning_content", "reasoning_details", "reasoning"];
/// The names of the limit of an answer.
const LIMITS: [&str; 3] = ["max_completion_tokens", "max_output_tokens", "max_tokens"];

/// How servers name what they can't show to a model.
const MEDIA: [&str; 9] = [
    "image",
    "pdf",
    "document",
    "file_data",
    "input_file",
    "multimodal",
    "multi-modal",
    "vision",
    "media type",
];

type Known = BTreeMap<(String, String), (Learned, Instant)>;

/// By the URL of the server and the name of the model. It is of the process: agents that ask the same server learn together.
static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

/// What is known of a model at a server.
pub(super) fn recall(url: &str, model: &str) -> Learned {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = known.get(&(url.to_owned(), model.to_owned()));
    found.filter(|(_, at)| at.elapsed() < REMEMBERED).map(|(learned, _)| learned.clone()).unwrap_or_default()
}

/// Remembers what has helped.
pub(super) fn remember(url: &str, model: &str, learned: &Learned) {
    let learned = Learned { drops_kept: false, drops_media: false, ..learned.clone() };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.retain(|_, (_, at)| at.elapsed() < REMEMBERED);
    let oldest = known.iter().min_by_key(|(_, (_, at))| *at).map(|(key, _)| key.clone());
    if let Some(oldest) = oldest.filter(|_| known.len() >= MAX_SERVERS) {
        known.remove(&oldest);
    }
    known.insert((url.to_owned(), model.to_owned()), (learned, Instant::now()));
}

impl Learned {
    /// Changes how the model is asked, by its refusal of `sent`. Returns what was changed, for people; `None` if nothing can be
    /// changed that nobody has set.
    pub(super) fn mend(
        &mut self,
        error: &ModelError,
        sent: &Value,
        request: &ModelRequest,
        (form, is_dialect_set): (RequestForm<'_>, bool),
    ) -> Option<String> {
        let is_refusal = matches!(error.status, Some(400 | 404 | 405 | 422 | 501));
        if !is_refusal || error.kind != ModelErrorKind::Permanent {
            return None;
        }
        let said = error.said.as_str();
        let dialect = self.dialect.unwrap_or(form.config.dialect);
        if dialect == Dialect::Chat && !is_dialect_set && said.contains("v1/responses") {
            self.dialect = Some(Dialect::Responses);
            return Some("asks by the Responses API".to_owned());
        }
        self.mend_reasoning(said, sent, request)
            .or_else(|| self.mend_limit(said, sent, form))
            .or_else(|| self.mend_media(said, request))
            .or_else(|| self.mend_tool(said, request))
            .or_else(|| self.mend_member(said, sent, form))
    }

    /// Reasoning is wanted back, or what was sent back is not taken.
    fn mend_reasoning(&mut self, said: &str, sent: &Value, request: &ModelRequest) -> Option<String> {
        let was_sent = |member: &str| {
            let messages = sent["messages"].as_array();
            messages.is_some_and(|messages| messages.iter().any(|message| message.get(member).is_some()))
        };
        let has_kept = request.messages.iter().any(|message| {
            matches!(message, ModelMessage::Assistant { kept: Some(kept), .. } if !kept.parts.is_null())
        });
        let is_missed = |member: &&&str| {
            names(said, member) && !was_sent(member) && !self.left_out.contains(**member) && has_kept
        };
        if let Some(member) = REASONING.iter().find(is_missed) {
            let is_new = self.sends_back.insert((*member).to_owned());
            return is_new.then(|| format!("sends `{member}` back, which the server wants"));
        }
        let is_opaque = ["signature", "encrypted", "thinking", "redacted_thinking"]
            .iter()
            .any(|word| said.contains(word));
        (is_opaque && has_kept && !self.drops_kept).then(|| {
            self.drops_kept = true;
            "leaves its earlier reasoning out, which the server does not take any more".to_owned()
        })
    }

    /// An image or a file is refused, which the model is told.
    fn mend_media(&mut self, said: &str, request: &ModelRequest) -> Option<String> {
        let is_meant = !request.media.is_empty() && MEDIA.iter().any(|word| said.contains(word));
        (is_meant && !self.drops_media).then(|| {
            self.drops_media = true;
            "leaves images and files out, which the server does not take".to_owned()
        })
    }

    /// The limit of an answer has another name there.
    fn mend_limit(&mut self, said: &str, sent: &Value, form: RequestForm<'_>) -> Option<String> {
        let used = LIMITS.iter().find(|name| sent.get(**name).is_some())?;
        let wanted = LIMITS.iter().find(|name| *name != used && names(said, name))?;
        if !names(said, used) || self.max_tokens.is_some() || form.config.settings.body.contains_key(*used) {
            return None;
        }
        self.max_tokens = Some((*wanted).to_owned());
        Some(format!("calls the limit of an answer `{wanted}`"))
    }

    /// The schema of a tool is refused: it is reduced, then the tool is not offered.
    fn mend_tool(&mut self, said: &str, request: &ModelRequest) -> Option<String> {
        if !["schema", "tool", "function", "parameters"].iter().any(|word| said.contains(word)) {
            return None;
        }
        let offered: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
        let offered: Vec<&str> =
            offered.into_iter().filter(|name| !self.dropped_tools.contains(*name)).collect();
        let by_place = ["tools.", "tools[", "tools, ", "\"tools\",", "function_declarations["];
        let by_place = by_place.iter().filter_map(|words| {
            let rest = said.split_once(words)?.1;
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            offered.get(digits.parse::<usize>().ok()?).copied()
        });
        let by_name = offered.iter().copied().filter(|name| names(said, &name.to_lowercase()));
        // Of names within each other the longest is meant.
        let name = by_place.take(1).next().or(by_name.max_by_key(|name| name.len()))?.to_owned();
        if self.plain_tools.insert(name.clone()) {
            return Some(format!("offers the tool {name} with a simpler schema"));
        }
        self.dropped_tools.insert(name.clone());
        Some(format!("does not offer the tool {name}, whose schema the server refuses"))
    }

    /// A member is refused that nobody has set.
    fn mend_member(&mut self, said: &str, sent: &Value, form: RequestForm<'_>) -> Option<String> {
        let of_rules = form.config.rules.needs.iter().flatten().map(|(name, _)| name.as_str());
        let text = sent.to_string();
        let is_sent = |member: &&str| text.contains(&format!("\"{member}\":"));
        let known = OWN_MEMBERS.into_iter().chain(of_rules);
        let mut refused = known.filter(|member| names(said, member) && !form.is_set(member)).filter(is_sent);
        let member = refused.find(|member| !self.left_out.contains(*member))?.to_owned();
        self.left_out.insert(member.clone());
        Some(format!("leaves out `{member}`, which the server refuses"))
    }
}

/// Whether a text names a word as a whole.
fn names(said: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    said.match_indices(word).any(|(at, _)| {
        let before = said[..at].chars().next_back().is_some_and(is_part);
        let after = said[at + word.len()..].chars().next().is_some_and(is_part);
        !before && !after
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brain::llm::{
        dialect::provider_error,
        model::{Kept, ToolSpec},
        request_form::tests::{model, request},
    };
    use serde_json::json;

    fn tool(name: &str) -> ToolSpec {
        ToolSpec { name: name.to_owned(), description: String::new(), schema: json!({}) }
    }

    fn mended(learned: &mut Learned, status: u16, message: &str) -> Option<String> {
        let config = model("openai/m");
        let mut asked = request(vec![ModelMessage::Assistant {
            text: String::new(),
            calls: Vec::new(),
            kept: Some(Kept { by: "x".into(), parts: json!({ "reasoning_content": "r" }) }),
        }]);
        asked.tools = vec![tool("read"), tool("read_file"), tool("write")];
        let sent = json!({ "stream_options": {}, "max_tokens": 5, "temperature": 1, "messages": [] });
        let before = learned.clone();
        let form = RequestForm { config: &config, learned: &before };
        let error = provider_error(Some(status), &json!({ "error": { "message": message } }));
        learned.mend(&error, &sent, &asked, (form, false))
    }

    #[test]
    fn a_refusal_that_names_what_nobody_has_set_changes_the_request() {
        for (status, message, expected) in [
            (422, "Extra inputs are not permitted: stream_options", "leaves out `stream_options`"),
            (
                400,
                "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
                "`max_completion_tokens`",
            ),
            (400, "tools.1.custom.input_schema: JSON schema is invalid", "the tool read_file with"),
            (400, "Invalid schema for function 'read_file': no", "the tool read_file with"),
            (404, "This model is only supported in v1/responses", "Responses"),
            (400, "Function tools with reasoning_effort are not supported. Use /v1/responses.", "Responses"),
            (
                400,
                "The `reasoning_content` in the thinking mode must be passed back",
                "sends `reasoning_content` back",
            ),
            (400, "Invalid signature in thinking block", "leaves its earlier reasoning out"),
        ] {
            let change = mended(&mut Learned::default(), status, message);
            assert!(change.as_ref().is_some_and(|change| change.contains(expected)), "{message}: {change:?}");
        }
        for (status, message) in
            [(400, "temperature must be 1"), (401, "stream_options"), (500, "stream_options"), (400, "no")]
        {
            assert_eq!(mended(&mut Learned::default(), status, message), None, "{message}");
        }
    }

    #[test]
    fn the_same_refusal_ends() {
        for message in [
            "stream_options",
            "tools.1.schema",
            "max_tokens max_completion_tokens",
            "reasoning_content",
            "signature",
        ] {
            let mut learned = Learned::default();
            let changes =
                (0..MAX_CHANGES).take_while(|_| mended(&mut learned, 400, message).is_some()).count();
            assert!((1..MAX_CHANGES).contains(&changes), "{message}: {changes}");
        }
        let mut learned = Learned::default();
        drop(mended(&mut learned, 400, "tools.1.schema"));
        assert!(
            mended(&mut learned, 400, "tools.1.schema")
                .unwrap()
                .contains("does not offer the tool read_file")
        );
    }
}
