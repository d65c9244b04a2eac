//! Providers of models as data: where each is, which dialect it speaks, and how its models differ. The files of `providers/` are
//! compiled in; a team's file may add to them or correct them. A file chooses among behaviours that have names here.

use super::model::{MediaKind, TokenUsage};
use crate::outbox::a2a::credentials::SecretString;
use protocol::bid::Cost;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

/// Where a model is, how it is asked and what it costs.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// The name in the configuration.
    pub model: String,
    /// The name at the provider.
    pub name: String,
    /// The provider's name in OpenTelemetry's GenAI conventions.
    pub provider: String,
    /// The base of its URLs, without a slash at the end.
    pub url: String,
    pub dialect: Dialect,
    /// Whether a person has set the dialect, so that no refusal changes it.
    pub is_dialect_set: bool,
    /// The key; `None` sends none.
    pub key: Option<SecretString>,
    /// The header that the key is in; `authorization` has it behind `Bearer`.
    pub key_header: String,
    /// The variable of this process that has the key, if one has.
    pub key_variable: Option<String>,
    pub rules: ModelRules,
    pub settings: ModelSettings,
    /// The price, if it is known.
    pub price: Option<TokenPrice>,
}

/// What a person has set for a model. A provider that refuses it is told nothing else: the task fails with its name. The doc comments are
/// descriptions in the published JSON Schema.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelSettings {
    /// The most tokens of one answer; the provider's limit if absent, 8192 for Anthropic.
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u32>,
    /// How much it reasons, in the provider's words, such as `low`, `high` or `none`; as the provider has it if absent.
    pub effort: Option<String>,
    /// How much chance there is in answers; as the provider has it if absent.
    pub temperature: Option<f64>,
    /// From which part of the likely words an answer is taken; as the provider has it if absent.
    pub top_p: Option<f64>,
    /// Texts at which an answer ends; none if absent.
    #[serde(default)]
    pub stop: Vec<String>,
    /// The number that chance begins with; as the provider has it if absent.
    pub seed: Option<i64>,
    /// Further headers of each request; best with `${VARIABLE}`.
    #[serde(default)]
    pub headers: BTreeMap<String, SecretString>,
    /// Further members of each request, as the provider documents them. They take precedence.
    #[serde(default)]
    pub body: Map<String, Value>,
    /// Whether the conversation is marked for the provider's cache, where it has marks; true if absent.
    pub cache: Option<bool>,
}

/// Prices per million tokens, in the unit of `bounds.cost`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TokenPrice {
    /// Of requests.
    #[schemars(with = "f64", range(min = 0))]
    pub input: Cost,
    /// Of answers.
    #[schemars(with = "f64", range(min = 0))]
    pub output: Cost,
    /// Of what the provider has read from its cache; as `input` if absent.
    #[schemars(with = "Option<f64>", range(min = 0))]
    pub cached: Option<Cost>,
    /// Of what the provider has written into its cache; as `input` if absent.
    #[schemars(with = "Option<f64>", range(min = 0))]
    pub cache_write: Option<Cost>,
}

impl TokenPrice {
    /// The cost of a call.
    #[expect(clippy::cast_precision_loss, reason = "no call has 2^52 tokens")]
    pub fn cost(self, usage: TokenUsage) -> f64 {
        let of = |price: Option<Cost>| price.unwrap_or(self.input).get();
        let fresh = usage.input.saturating_sub(usage.cached).saturating_sub(usage.cache_write);
        let parts = [
            (fresh, self.input.get()),
            (usage.cached, of(self.cached)),
            (usage.cache_write, of(self.cache_write)),
            (usage.output, self.output.get()),
        ];
        parts.iter().map(|(tokens, price)| *tokens as f64 * price).sum::<f64>() / 1e6
    }
}

/// A format of requests and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Dialect {
    /// OpenAI Chat Completions, which most servers speak.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Messages,
}

/// The form of the ids of calls that go back to the provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CallIdForm {
    /// Letters, digits, `_` and `-`, at most 64.
    #[default]
    Any,
    /// Nine letters and digits.
    NineAlphanumeric,
}

/// Which messages may follow each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RoleOrder {
    #[default]
    Any,
    /// The user and the model in turns; after results of tools comes the model.
    Alternate,
}

/// Which schemas of arguments are taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SchemaForm {
    /// JSON Schema whose top is an object without alternatives.
    #[default]
    Object,
    /// No more than types, members, items, enumerations and descriptions.
    Plain,
}

/// How a conversation is marked for the provider's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CacheForm {
    /// The provider caches by itself, or not at all.
    None,
    /// By marks at blocks (Anthropic).
    Marks,
}

/// How models whose names fit a pattern differ. What is absent is as a less exact pattern says.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ModelRules {
    /// The member of a request with the most tokens of an answer; `max_tokens` if absent.
    pub max_tokens: Option<String>,
    /// Its value if nothing is set, where the provider requires one.
    pub most_tokens: Option<u32>,
    /// The members that are left out of requests, unless somebody has set them.
    pub refuses: Option<Vec<String>>,
    /// Members that each request has, unless somebody has set them.
    pub needs: Option<Map<String, Value>>,
    /// The form of the ids of calls.
    pub call_ids: Option<CallIdForm>,
    /// Which messages may follow each other.
    pub roles: Option<RoleOrder>,
    /// Which schemas of arguments are taken.
    pub schema: Option<SchemaForm>,
    /// Whether a schema of the answer is taken together with tools; true if absent.
    pub schema_with_tools: Option<bool>,
    /// The members of an answer with reasoning that go back: `reasoning_content`, `reasoning`, `reasoning_details`; if absent
    /// `reasoning_details`, and the others once a server has asked for them.
    pub reasoning: Option<Vec<String>>,
    /// Whether an answer whose whole text is the call of a tool is taken for that call; false if absent.
    pub text_calls: Option<bool>,
    /// The tokens of its context.
    pub context: Option<usize>,
    /// How a conversation is marked for the cache.
    pub cache: Option<CacheForm>,
    /// What the model sees besides text: `image`, `pdf`; nothing if absent.
    pub sees: Option<Vec<MediaKind>>,
    /// The most bytes of an image that the provider takes; if absent, as many as a request.
    pub max_image: Option<u64>,
    /// What tokens cost; the file says when that was published.
    pub price: Option<TokenPrice>,
}

impl ModelRules {
    /// The same, with what `other` says in its place.
    fn with(self, other: &Self) -> Self {
        macro_rules! merged {
            ($($member:ident)*) => { Self { $($member: other.$member.clone().or(self.$member),)* } };
        }
        merged!(max_tokens most_tokens refuses needs call_ids roles schema schema_with_tools reasoning text_calls context cache sees max_image price)
    }
}

/// A provider, as its file describes it.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelProvider {
    /// Where it is; if absent, each model needs its `url`.
    pub url: Option<String>,
    /// The variable that its own clients read the key from.
    pub key: Option<String>,
    /// Whether it may be asked without a key.
    #[serde(default)]
    pub key_is_optional: bool,
    /// The header that the key is in; `authorization`, with `Bearer`, if absent.
    pub key_header: Option<String>,
    /// The format that it speaks; `chat` if absent.
    pub dialect: Option<Dialect>,
    /// The format at a `url` that is not its own; `dialect` if absent.
    pub dialect_elsewhere: Option<Dialect>,
    /// Its name in OpenTelemetry's GenAI conventions; the name of the file if absent.
    pub name: Option<String>,
    /// What differs, by patterns of names of models, in which `*` is any text. The most exact pattern that fits decides.
    #[serde(default)]
    pub models: BTreeMap<String, ModelRules>,
}

impl ModelProvider {
    /// The same, corrected: what `other` says takes precedence, pattern by pattern.
    fn corrected(mut self, other: Self) -> Self {
        for (pattern, rules) in other.models {
            let known = self.models.remove(&pattern).unwrap_or_default();
            self.models.insert(pattern, known.with(&rules));
        }
        Self {
            url: other.url.or(self.url),
            key: other.key.or(self.key),
            key_is_optional: other.key_is_optional || self.key_is_optional,
            key_header: other.key_header.or(self.key_header),
            dialect: other.dialect.or(self.dialect),
            dialect_elsewhere: other.dialect_elsewhere.or(self.dialect_elsewhere),
            name: other.name.or(self.name),
            models: self.models,
        }
    }
}

const FILES: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/providers.rs"));

static SHIPPED: LazyLock<Providers> = LazyLock::new(|| {
    let files = FILES.iter().filter_map(|(name, text)| match read(text) {
        Ok(file) => Some(((*name).to_owned(), file)),
        Err(error) => {
            tracing::error!(provider = name, %error, "a provider's file can't be read");
            None
        }
    });
    Providers { files: Arc::new(files.collect()) }
});

fn read(text: &str) -> Result<ModelProvider, String> {
    let value: Value = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    serde_json::from_value(value).map_err(|error| error.to_string())
}

/// All providers that are known.
#[derive(Debug, Clone)]
pub struct Providers {
    files: Arc<BTreeMap<String, ModelProvider>>,
}

impl Default for Providers {
    fn default() -> Self {
        SHIPPED.clone()
    }
}

/// A provider, and the name of a model there.
#[derive(Debug, Clone, Copy)]
pub struct FoundModel<'a> {
    /// The name before the slash; `None` of a server that is known by its URL only.
    pub prefix: Option<&'a str>,
    pub provider: Option<&'a ModelProvider>,
    pub model: &'a str,
}

impl Providers {
    /// With those of a team's file in place of or beside those that are shipped.
    #[must_use]
    pub fn corrected(&self, given: BTreeMap<String, ModelProvider>) -> Self {
        let mut files = BTreeMap::clone(&self.files);
        for (name, file) in given {
            let file = match files.remove(&name) {
                Some(known) if file.url.is_some() && file.url != known.url => {
                    // A key that is not named here is none for this place.
                    ModelProvider { key: None, key_is_optional: true, ..known }.corrected(file)
                }
                Some(known) => known.corrected(file),
                None => file,
            };
            files.insert(name, file);
        }
        Self { files: Arc::new(files) }
    }

    /// The provider that a name says. A name without a known provider is one of the server at `url`.
    pub fn find<'a>(&'a self, name: &'a str, has_url: bool) -> Result<FoundModel<'a>, String> {
        let known = name.split_once('/').and_then(|(prefix, model)| {
            let provider = self.files.get(prefix)?;
            Some(FoundModel { prefix: Some(prefix), provider: Some(provider), model })
        });
        match known {
            Some(FoundModel { model: "", .. }) => Err(format!("{name:?} names no model after the slash")),
            Some(found) => Ok(found),
            None if has_url && !name.is_empty() => {
                Ok(FoundModel { prefix: None, provider: None, model: name })
            }
            None => {
                let names: Vec<_> = self.files.keys().map(|name| format!("{name}/…")).collect();
                Err(format!(
                    "{name:?} names no known provider; write one of {}, or `url` beside it for any server that speaks OpenAI's format",
                    names.join(", ")
                ))
            }
        }
    }

    /// The rules of a model: those of its name at any provider, then those of its own provider.
    pub fn rules(&self, found: FoundModel<'_>) -> ModelRules {
        let own = found.prefix.unwrap_or_default();
        let short = found.model.rsplit('/').next().unwrap_or_default();
        let of_others = self.files.iter().filter(|(name, _)| *name != own);
        let of_others = of_others.flat_map(|(_, file)| &file.models).filter(|(pattern, _)| *pattern != "*");
        // A price is one of a provider. So is what a provider does to a request.
        let of_others = fitting(of_others, short).into_iter().map(|rules| ModelRules {
            price: None,
            max_tokens: None,
            schema: None,
            cache: None,
            max_image: None,
            ..rules.clone()
        });
        let of_own = found.provider.into_iter().flat_map(|file| fitting(file.models.iter(), found.model));
        let all = of_others.chain(of_own.cloned());
        all.fold(ModelRules::default(), |rules, more| rules.with(&more))
    }
}

/// The rules whose patterns fit, the most exact last.
fn fitting<'a>(
    rules: impl Iterator<Item = (&'a String, &'a ModelRules)>,
    model: &str,
) -> Vec<&'a ModelRules> {
    let model = model.to_ascii_lowercase();
    let mut found: Vec<_> = rules.filter(|(pattern, _)| fits(pattern, &model)).collect();
    found.sort_by_key(|(pattern, _)| (pattern.bytes().filter(|byte| *byte != b'*').count(), pattern.len()));
    found.into_iter().map(|(_, rules)| rules).collect()
}

/// Whether `text` is `pattern`, in which `*` is any text.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_can_be_read_and_says_where_its_provider_is() {
        for (name, text) in FILES {
            let file = read(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(file.url.is_some() || file.key.is_some(), "{name}");
            assert!(file.models.contains_key("*"), "{name}");
        }
        assert!(FILES.len() >= 17);
    }

    #[test]
    fn what_a_model_sees_is_known_by_its_name_at_any_provider() {
        use MediaKind::{Image, Pdf};
        let providers = Providers::default();
        let (both, image, none): (&[_], &[_], &[_]) = (&[Image, Pdf], &[Image], &[]);
        for (name, expected) in [
            ("anthropic/claude-sonnet-4-5", both),
            ("bedrock/us.anthropic.claude-opus-4-1-20250805-v1:0", both),
            ("openrouter/openai/gpt-5-mini", both),
            ("openai/gpt-4o-2024-11-20", both),
            ("openai/o3", both),
            ("openai/o3-mini", none),
            ("gemini/gemini-2.5-flash-lite", both),
            ("mistral/pixtral-large-latest", image),
            ("mistral/mistral-large-latest", none),
            ("xai/grok-4-fast", image),
            ("ollama/llama3.2-vision:11b", image),
            ("ollama/qwen2.5vl", image),
            ("vllm/Qwen/Qwen3-VL-8B", image),
            ("ollama/gemma3:12b", image),
            ("ollama/gemma3:1b", none),
            ("groq/meta-llama/llama-4-scout-17b", image),
            ("groq/openai/gpt-oss-120b", none),
            ("deepseek/deepseek-chat", none),
            ("some-model", none),
        ] {
            let seen = providers.rules(providers.find(name, true).unwrap()).sees.unwrap_or_default();
            assert_eq!(seen, expected, "{name}");
        }
        let behind = providers.rules(providers.find("openrouter/anthropic/claude-sonnet-4", true).unwrap());
        assert_eq!(behind.max_image, None, "a limit is one of a provider");
    }

    #[test]
    fn a_name_says_the_provider_or_is_one_of_the_server_at_the_url() {
        let providers = Providers::default();
        for (name, has_url, expected) in [
            ("anthropic/claude-sonnet-4-5", false, Some((Some("anthropic"), "claude-sonnet-4-5"))),
            ("openai/gpt-5-mini", true, Some((Some("openai"), "gpt-5-mini"))),
            ("ollama/library/qwen3:8b", false, Some((Some("ollama"), "library/qwen3:8b"))),
            ("meta-llama/Llama-4", true, Some((None, "meta-llama/Llama-4"))),
            ("meta-llama/Llama-4", false, None),
            ("gemini/", false, None),
            ("", true, None),
        ] {
            let found = providers.find(name, has_url).ok().map(|found| (found.prefix, found.model));
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn the_most_exact_pattern_decides_and_a_known_name_has_its_rules_anywhere() {
        let providers = Providers::default();
        let rules = |name: &str| providers.rules(providers.find(name, true).unwrap());
        let back = |name: &str| rules(name).reasoning;
        assert_eq!(back("deepseek/deepseek-v4-pro"), Some(vec!["reasoning_content".to_owned()]));
        assert_eq!(back("deepseek/deepseek-reasoner"), Some(Vec::new()));
        assert_eq!(back("openai/deepseek-v4-pro"), Some(vec!["reasoning_content".to_owned()]));
        assert_eq!(back("deepseek-ai/DeepSeek-R1"), Some(Vec::new()));
        assert_eq!(back("llama"), None);
        assert_eq!(rules("mistralai/Devstral-small").call_ids, Some(CallIdForm::NineAlphanumeric));
        assert_eq!(rules("openai/gpt-5-mini").context, Some(400_000));
        assert!(rules("openai/gpt-5-mini-2025-08-07").price.is_some() && rules("openai/new").price.is_none());
        assert!(rules("litellm/gpt-5-mini").price.is_none(), "another provider's price");
    }

    #[test]
    fn a_team_corrects_a_provider_and_adds_one() {
        let given = |text: &str| read(text).unwrap();
        let files = [
            ("mistral".to_owned(), given("models: { 'mistral-*': { roles: any } }")),
            ("own".to_owned(), given("url: http://gpu:8000/v1\nmodels: { 'qwen*': { textCalls: true } }")),
            ("openai".to_owned(), given("url: http://gateway/v1")),
        ];
        let providers = Providers::default().corrected(files.into());
        let rules = |name: &str| providers.rules(providers.find(name, false).unwrap());
        let mistral = rules("mistral/mistral-large");
        assert_eq!(
            (mistral.roles, mistral.call_ids),
            (Some(RoleOrder::Any), Some(CallIdForm::NineAlphanumeric))
        );
        assert_eq!(rules("own/qwen3").text_calls, Some(true));
        assert_eq!(providers.files["openai"].key, None, "its URL is the team's");
        assert!(read("dialect: chatty").unwrap_err().contains("`chat`, `responses`, `messages`"));
    }

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("*", "x", true),
            ("a*", "ab", true),
            ("a*", "ba", false),
            ("*b", "ab", true),
            ("*b*d", "abcd", true),
            ("*b*b", "ab", false),
            ("ab", "abc", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn prices_are_per_million_tokens() {
        let cost = |price: f64| Cost::new(price).unwrap();
        let price =
            TokenPrice { input: cost(3.0), output: cost(15.0), cached: Some(cost(0.3)), cache_write: None };
        let usage = TokenUsage { input: 200_000, output: 10_000, cached: 100_000, cache_write: 50_000 };
        let paid = price.cost(usage);
        assert!((paid - (0.3 + 0.03 + 0.15)).abs() < 1e-9, "{paid}");
    }
}
