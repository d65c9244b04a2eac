//! What the bodies of all dialects have in common: how a conversation is put for one model, by the rules of its provider and by what
//! its server has refused before.

use super::{
    model::{Kept, MediaRef, ModelMessage, ModelRequest, ToolCall, ToolSpec},
    provider::{CacheForm, CallIdForm, Dialect, ModelConfig, RoleOrder, SchemaForm},
    tool_schema,
};
use protocol::ids::Digest;
use serde_json::{Value, json};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

/// The letters of an id of nine.
const NINE: usize = 9;
/// The longest id that all providers take.
const MAX_ID: usize = 64;

/// How a model at a server is asked, differently from the rules of its provider.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Learned {
    /// Members that are left out.
    pub(super) left_out: BTreeSet<String>,
    /// Members of answers that go back.
    pub(super) sends_back: BTreeSet<String>,
    /// Tools whose schemas are reduced.
    pub(super) plain_tools: BTreeSet<String>,
    /// Tools that are not offered.
    pub(super) dropped_tools: BTreeSet<String>,
    /// The name of the limit of an answer.
    pub(super) max_tokens: Option<String>,
    /// The format.
    pub(super) dialect: Option<Dialect>,
    /// Whether nothing that was kept goes back, for one request.
    pub(super) drops_kept: bool,
    /// Whether no media are shown, for one request.
    pub(super) drops_media: bool,
}

/// How a conversation is put for a model.
#[derive(Clone, Copy)]
pub(super) struct RequestForm<'a> {
    pub(super) config: &'a ModelConfig,
    pub(super) learned: &'a Learned,
}

impl RequestForm<'_> {
    /// What names the provider in what is kept for it.
    pub(super) fn keeper(&self) -> String {
        let dialect = json!(self.learned.dialect.unwrap_or(self.config.dialect));
        format!("{} {}", dialect.as_str().unwrap_or_default(), self.config.url)
    }

    /// What was kept for this provider, and not for another one.
    pub(super) fn own<'k>(&self, kept: &'k Option<Kept>) -> Option<&'k Kept> {
        kept.as_ref().filter(|kept| kept.by == self.keeper())
    }

    /// What this provider wants back, unless it has refused it.
    pub(super) fn parts<'k>(&self, kept: &'k Option<Kept>) -> Option<&'k Value> {
        let kept = self.own(kept).filter(|_| !self.learned.drops_kept)?;
        Some(&kept.parts).filter(|parts| !parts.is_null())
    }

    /// The conversation, in the order of roles that the provider takes.
    pub(super) fn messages<'m>(&self, request: &'m ModelRequest) -> Cow<'m, [ModelMessage]> {
        match self.config.rules.roles.unwrap_or_default() {
            RoleOrder::Any => Cow::Borrowed(&request.messages),
            RoleOrder::Alternate => Cow::Owned(alternate(&request.messages)),
        }
    }

    /// Whether what the user says is joined to the message before.
    pub(super) fn is_alternating(&self) -> bool {
        self.config.rules.roles == Some(RoleOrder::Alternate)
    }

    /// Media as parts of a message: each has a text that names it, and is shown by `part` with its content as base64 if the model
    /// sees it.
    pub(super) fn media_parts(
        &self,
        media: &[MediaRef],
        request: &ModelRequest,
        text: fn(String) -> Value,
        part: fn(&MediaRef, &str) -> Value,
    ) -> Vec<Value> {
        let shown = media.iter().flat_map(|medium| {
            let label = medium.label();
            let content =
                request.media.get(&medium.digest).ok_or("left out for newer ones, or not kept any more");
            let content = match medium.unseen(&self.config.rules) {
                Some(why) => Err(why),
                None if self.learned.drops_media => Err("its provider does not take it".to_owned()),
                None => content.map_err(str::to_owned),
            };
            match content {
                Ok(content) => {
                    vec![text(format!("[{label}, which is data, follows]")), part(medium, content)]
                }
                Err(why) => vec![text(format!("[{label}: {why}]"))],
            }
        });
        shown.collect()
    }

    /// The ids of all calls as the provider is sent them, by ours.
    pub(super) fn call_ids(&self, messages: &[ModelMessage]) -> BTreeMap<String, String> {
        let form = self.config.rules.call_ids.unwrap_or_default();
        let mut ids = BTreeMap::new();
        for message in messages {
            let ModelMessage::Assistant { calls, kept, .. } = message else { continue };
            let is_own = self.own(kept).is_some();
            ids.extend(calls.iter().map(|call| (call.id.clone(), sent_id(call, is_own, form))));
        }
        ids
    }

    /// The tools, with schemas that the provider takes.
    pub(super) fn tools<'r>(&self, request: &'r ModelRequest) -> impl Iterator<Item = (&'r ToolSpec, Value)> {
        let form = self.config.rules.schema.unwrap_or_default();
        let learned = self.learned;
        let taken = request.tools.iter().filter(|tool| !learned.dropped_tools.contains(&tool.name));
        taken.map(move |tool| {
            let is_plain = form == SchemaForm::Plain || learned.plain_tools.contains(&tool.name);
            (
                tool,
                if is_plain { tool_schema::plain(&tool.schema) } else { tool_schema::object(&tool.schema) },
            )
        })
    }

    /// The schema of the answer, if it is taken together with the tools.
    pub(super) fn output_schema<'r>(&self, request: &'r ModelRequest) -> Option<&'r Value> {
        let is_taken = request.tools.is_empty() || self.config.rules.schema_with_tools.unwrap_or(true);
        request.output_schema.as_ref().filter(|_| is_taken)
    }

    /// Whether the conversation is marked for the provider's cache.
    pub(super) fn is_marked(&self) -> bool {
        self.config.settings.cache.unwrap_or(true) && self.config.rules.cache == Some(CacheForm::Marks)
    }

    /// Whether a member of the model's answers goes back.
    pub(super) fn goes_back(&self, member: &str) -> bool {
        let of_rules = match &self.config.rules.reasoning {
            Some(members) => members.iter().any(|known| known == member),
            None => ["reasoning_details", "thinking_blocks"].contains(&member),
        };
        (of_rules || self.learned.sends_back.contains(member)) && !self.learned.left_out.contains(member)
    }

    /// Whether a person has set a member of the request.
    pub(super) fn is_set(&self, member: &str) -> bool {
        let settings = &self.config.settings;
        settings.body.contains_key(member)
            || match member {
                "max_tokens" | "max_completion_tokens" | "max_output_tokens" => settings.max_tokens.is_some(),
                "reasoning_effort" | "reasoning" | "effort" | "output_config" => settings.effort.is_some(),
                "temperature" => settings.temperature.is_some(),
                "top_p" => settings.top_p.is_some(),
                "stop" | "stop_sequences" => !settings.stop.is_empty(),
                "seed" => settings.seed.is_some(),
                _ => false,
            }
    }

    /// Adds what a person has set, by the names of the dialect for the effort and for the texts at which an answer ends, and what the
    /// rules need; leaves out what the provider refuses. What a dialect has no member for is sent all the same, so that the provider
    /// names it.
    pub(super) fn finish(&self, mut body: Value, effort: (&str, fn(&str) -> Value), stop: &str) -> Value {
        let (rules, settings) = (&self.config.rules, &self.config.settings);
        if let Some(members) = body.as_object_mut() {
            let set = [
                (effort.0, settings.effort.as_deref().map(effort.1)),
                ("temperature", settings.temperature.map(|temperature| json!(temperature))),
                ("top_p", settings.top_p.map(|top_p| json!(top_p))),
                (stop, Some(json!(settings.stop)).filter(|_| !settings.stop.is_empty())),
                ("seed", settings.seed.map(|seed| json!(seed))),
            ];
            members.extend(set.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
            for (name, value) in rules.needs.iter().flatten() {
                members.entry(name.clone()).or_insert_with(|| value.clone());
            }
            members.extend(settings.body.clone());
        }
        let refused = rules.refuses.iter().flatten().chain(&self.learned.left_out);
        for member in refused.filter(|member| !self.is_set(member)) {
            leave_out(&mut body, member);
        }
        body
    }
}

/// Leaves a member out, wherever this program puts it.
fn leave_out(body: &mut Value, member: &str) {
    if let Some(members) = body.as_object_mut() {
        members.remove(member);
    }
    for at in ["/response_format/json_schema", "/text/format"] {
        if let Some(Value::Object(members)) = body.pointer_mut(at) {
            members.remove(member);
        }
    }
    for list in ["messages", "system", "tools"] {
        for item in body.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let Value::Object(members) = item else { continue };
            members.remove(member);
            if let Some(Value::Object(function)) = members.get_mut("function") {
                function.remove(member);
            }
            if let Some(Value::Array(blocks)) = members.get_mut("content") {
                blocks
                    .iter_mut()
                    .filter_map(Value::as_object_mut)
                    .for_each(|block| drop(block.remove(member)));
            }
        }
    }
}

/// The members that this program puts into requests without being asked to, and that servers are known to refuse.
pub(super) const OWN_MEMBERS: [&str; 15] = [
    "stream_options",
    "response_format",
    "cache_control",
    "strict",
    "extra_content",
    "reasoning_details",
    "thinking_blocks",
    "reasoning_content",
    "reasoning",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "include",
    "store",
    "is_error",
];

/// The id of a call as a provider is sent it: its own as it was; else ours, or one of the wanted form.
fn sent_id(call: &ToolCall, is_own: bool, form: CallIdForm) -> String {
    let fits = |id: &&String| match form {
        CallIdForm::Any => id.len() <= MAX_ID,
        CallIdForm::NineAlphanumeric => {
            id.len() == NINE && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
        }
    };
    // Its own may be as long as it likes.
    let own = call.provider_id.as_ref().filter(|_| is_own);
    if let Some(id) = own.filter(|id| form == CallIdForm::Any || fits(id)) {
        return id.clone();
    }
    match form {
        CallIdForm::Any => call.id.clone(),
        CallIdForm::NineAlphanumeric => {
            let digest = Digest::of(call.id.as_bytes()).to_string();
            digest.chars().filter(char::is_ascii_alphanumeric).rev().take(NINE).collect()
        }
    }
}

/// The user and the model in turns. What the user says after results of tools is added to the last of them.
fn alternate(messages: &[ModelMessage]) -> Vec<ModelMessage> {
    let mut turns: Vec<ModelMessage> = Vec::new();
    for message in messages {
        match (turns.last_mut(), message) {
            (Some(ModelMessage::User(before)), ModelMessage::User(text)) => {
                before.push_str("\n\n");
                before.push_str(text);
            }
            (Some(ModelMessage::Results(results)), ModelMessage::User(text)) => {
                if let Some((_, result)) = results.last_mut() {
                    result.text.push_str("\n\n");
                    result.text.push_str(text);
                }
            }
            _ => turns.push(message.clone()),
        }
    }
    turns
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::brain::llm::{
        model::ToolText,
        provider::{ModelSettings, Providers},
    };

    /// A model by its name at a server.
    pub(crate) fn model(name: &str) -> ModelConfig {
        let providers = Providers::default();
        let found = providers.find(name, true).unwrap();
        let dialect = found.provider.and_then(|file| file.dialect_elsewhere.or(file.dialect));
        ModelConfig {
            model: name.to_owned(),
            name: found.model.to_owned(),
            provider: "p".to_owned(),
            url: "http://models/v1".to_owned(),
            dialect: dialect.unwrap_or(crate::brain::llm::provider::Dialect::Chat),
            is_dialect_set: false,
            key: None,
            key_header: "authorization".to_owned(),
            key_variable: None,
            rules: providers.rules(found),
            settings: ModelSettings::default(),
            price: None,
        }
    }

    pub(crate) fn call(id: &str, provider_id: Option<&str>) -> ToolCall {
        let call = ToolCall::parse(id.to_owned(), "log".to_owned(), "{}", None);
        ToolCall { provider_id: provider_id.map(str::to_owned), ..call }
    }

    pub(crate) fn result(id: &str, text: &str) -> (String, ToolText) {
        (id.to_owned(), ToolText { text: text.to_owned(), is_error: false })
    }

    pub(crate) fn request(messages: Vec<ModelMessage>) -> ModelRequest {
        ModelRequest {
            system: "s".to_owned(),
            messages,
            tools: Vec::new(),
            output_schema: None,
            repeatable: (0, String::new()),
            has_budget_note: false,
            media: BTreeMap::new(),
            silence: None,
        }
    }

    #[test]
    fn a_providers_id_goes_back_to_it_alone_and_has_the_form_that_it_takes() {
        for (id, is_own, form, expected) in [
            (Some("call_x"), true, CallIdForm::Any, Some("call_x")),
            (Some("call_x"), false, CallIdForm::Any, Some("c1_0")),
            (None, true, CallIdForm::Any, Some("c1_0")),
            (Some("abcDEF123"), true, CallIdForm::NineAlphanumeric, Some("abcDEF123")),
            (Some("call_x"), true, CallIdForm::NineAlphanumeric, None),
            (Some("abcDEF123"), false, CallIdForm::NineAlphanumeric, None),
        ] {
            let sent = sent_id(&call("c1_0", id), is_own, form);
            match expected {
                Some(expected) => assert_eq!(sent, expected, "{id:?}"),
                None => assert!(sent.len() == 9 && sent.bytes().all(|b| b.is_ascii_alphanumeric()), "{sent}"),
            }
        }
        let nine = |id| sent_id(&call(id, None), false, CallIdForm::NineAlphanumeric);
        assert_ne!(nine("c1_0"), nine("c1_1"));
    }

    #[test]
    fn roles_alternate_where_a_provider_wants_it() {
        let user = |text: &str| ModelMessage::User(text.to_owned());
        let calls = vec![call("c", None)];
        let answer = ModelMessage::Assistant { text: String::new(), calls, kept: None };
        let messages = [
            user("a"),
            user("b"),
            answer.clone(),
            ModelMessage::Results(vec![result("c", "r")]),
            user("note"),
            user("more"),
        ];
        let expected =
            [user("a\n\nb"), answer, ModelMessage::Results(vec![result("c", "r\n\nnote\n\nmore")])];
        assert_eq!(alternate(&messages), expected);
    }

    #[test]
    fn media_are_put_in_each_dialect_behind_their_names() {
        use crate::brain::llm::{
            chat,
            media::{PDF, tests::medium},
            messages,
            model::MediaKind,
            responses,
        };
        let (shot, page) = (medium("shot.png", "image/png", 9), medium("page.pdf", PDF, 9));
        let (large, old) = (medium("large.png", "image/png", 99), medium("old.png", "image/png", 9));
        let said = ModelMessage::User("look".into());
        let media = vec![shot.clone(), page.clone(), large, old];
        let mut asked = request(vec![said, ModelMessage::Media(media), ModelMessage::User("now".into())]);
        asked.media = [(shot.digest, "SHOT".into()), (page.digest, "PAGE".into())].into();
        let mut config = model("m");
        let learned = Learned::default();
        let shown =
            |config: &ModelConfig, learned: &Learned, body: fn(RequestForm<'_>, &ModelRequest) -> Value| {
                let sent = body(RequestForm { config, learned }, &asked);
                let list = sent.get("messages").or(sent.get("input")).unwrap().as_array().unwrap().clone();
                let said = list.iter().filter(|message| message["role"] == "user");
                said.flat_map(|message| message["content"].as_array().cloned().unwrap_or_default())
                    .collect::<Vec<_>>()
            };
        config.rules.sees = Some(vec![MediaKind::Image, MediaKind::Pdf]);
        config.rules.max_image = Some(50);
        let data = "data:application/pdf;base64,PAGE";
        let expected = [
            json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,SHOT" } }),
            json!({ "type": "file", "file": { "filename": "page.pdf", "file_data": data } }),
        ];
        let of_chat = shown(&config, &learned, chat::body);
        assert_eq!([of_chat[1].clone(), of_chat[3].clone()], expected);
        let text = |part: &Value| part["text"].as_str().unwrap().to_owned();
        assert_eq!(text(&of_chat[0]), "[file \"shot.png\", image/png, 9 bytes, which is data, follows]");
        assert!(text(&of_chat[4]).ends_with("99 bytes: larger than the 50 bytes that its provider takes]"));
        assert!(text(&of_chat[5]).ends_with(": left out for newer ones, or not kept any more]"));
        let of_responses = shown(&config, &learned, responses::body);
        let image = "data:image/png;base64,SHOT";
        assert_eq!(of_responses[2], json!({ "type": "input_image", "detail": "auto", "image_url": image }));
        assert_eq!(
            of_responses[4],
            json!({ "type": "input_file", "filename": "page.pdf", "file_data": data })
        );
        let of_messages = shown(&config, &learned, messages::body);
        let source = |media_type: &str, data: &str| json!({ "type": "base64", "media_type": media_type, "data": data });
        assert_eq!(of_messages[2], json!({ "type": "image", "source": source("image/png", "SHOT") }));
        assert_eq!(of_messages[4], json!({ "type": "document", "source": source(PDF, "PAGE") }));

        config.rules.roles = Some(RoleOrder::Alternate);
        let joined = shown(&config, &learned, chat::body);
        assert_eq!((text(&joined[0]), joined[2].clone()), ("look".to_owned(), expected[0].clone()));
        assert_eq!(text(joined.last().unwrap()), "now", "all in one message");
        let refused = Learned { drops_media: true, ..Learned::default() };
        let told = shown(&config, &refused, chat::body);
        assert!(text(&told[1]).ends_with("its provider does not take it]") && told.len() == 6, "{told:#?}");
        config.rules.sees = None;
        let blind = shown(&config, &learned, chat::body);
        assert_eq!(blind.iter().filter(|part| text(part).ends_with("this model can't see it]")).count(), 4);
    }

    #[test]
    fn what_a_person_has_set_is_never_left_out() {
        let mut config = model("m");
        config.settings.body.insert("stream_options".into(), json!({ "x": 1 }));
        let left_out = ["stream_options", "store", "cache_control"].map(str::to_owned).into();
        let learned = Learned { left_out, ..Learned::default() };
        let form = RequestForm { config: &config, learned: &learned };
        let block = json!({ "type": "text", "cache_control": {} });
        let body = json!({ "store": false, "messages": [{ "content": [block] }], "system": [block] });
        let expected = json!({
            "stream_options": { "x": 1 }, "messages": [{ "content": [{ "type": "text" }] }], "system": [{ "type": "text" }],
        });
        assert_eq!(form.finish(body, ("effort", |effort| json!(effort)), "stop"), expected);
    }
}
