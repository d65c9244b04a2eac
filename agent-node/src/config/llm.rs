//! The `llm` brain in the YAML: models, keys, tools, prices.

use super::{
    command_check,
    forms::{self, MapOrText, ShortForm, YamlForms},
    text::YamlText,
    variables,
    yaml::{YamlNode, YamlValue},
};
use crate::{
    brain::llm::{
        LlmConfig,
        media::MediaKind,
        output::OutputSchema,
        provider::{Dialect, ModelConfig, ModelRules, ModelSettings, Providers, TokenPrice},
        skill_folder::SkillFolder,
        tool_permission::ToolPermissions,
        tool_server::{ToolServerConfig, ToolServerTransport},
    },
    outbox::a2a::credentials::SecretString,
    telemetry::capture::{of_command, of_query, of_variable},
    text_file,
};
use blackboard::http_client::{has_credentials, redact_url};
use protocol::{bid::Eta, ids::Capability};
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, value::SeqAccessDeserializer},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

/// A struct with the keys of a model beside its own.
macro_rules! with_model_keys {
    ($(#[$doc:meta])* struct $name:ident { $($(#[$member_doc:meta])* $member:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub(super) struct $name {
            /// The model: the name of a provider, a slash, and its name there, such as `anthropic/…` or `ollama/…`; with `url` any model of a server that speaks OpenAI's format.
            model: String,
            /// The base URL of the provider, such as `http://localhost:8080/v1`; the provider's own if absent or empty.
            url: Option<YamlText>,
            /// The key, best as `${VARIABLE}`; if absent, and without a `url`, the variable that the provider's own clients read.
            key: Option<YamlText>,
            /// The format of requests: `chat`, `responses` or `messages`; that of the provider if absent.
            dialect: Option<Dialect>,
            /// The most tokens of one answer; the provider's limit if absent, 8192 for Anthropic.
            #[schemars(range(min = 1))]
            max_tokens: Option<u32>,
            /// How much it reasons, in the provider's words, such as `low`, `high` or `none`; as the provider has it if absent.
            effort: Option<String>,
            /// How much chance there is in answers; as the provider has it if absent.
            temperature: Option<f64>,
            /// From which part of the likely words an answer is taken; as the provider has it if absent.
            top_p: Option<f64>,
            /// Texts at which an answer ends; none if absent.
            #[serde(default)]
            stop: Vec<String>,
            /// The number that chance begins with; as the provider has it if absent.
            seed: Option<i64>,
            /// Further headers of each request; best with `${VARIABLE}`.
            #[serde(default)]
            headers: BTreeMap<String, YamlText>,
            /// Further members of each request, as the provider documents them. They take precedence.
            #[serde(default)]
            body: serde_json::Map<String, serde_json::Value>,
            /// Whether the conversation is marked for the provider's cache, where it has marks; true if absent.
            cache: Option<bool>,
            /// What it sees besides text: `image`, `pdf`; as its provider's file says if absent, which is nothing of an unknown model.
            sees: Option<Vec<MediaKind>>,
            /// What a million tokens cost, in the unit of the mesh; as its provider's file says if absent, which may be unknown.
            price: Option<TokenPrice>,
            $($(#[$member_doc])* $member: $type,)*
        }

        impl $name {
            fn keys(&self) -> ModelKeys<'_> {
                let Self { model, url, key, dialect, max_tokens, effort, temperature, top_p, stop, seed, headers, body, cache, sees, price, .. } = self;
                let text = |text: &Option<YamlText>| text.as_ref().map(YamlText::copy);
                ModelKeys {
                    model,
                    url: text(url),
                    key: text(key),
                    dialect: *dialect,
                    settings: ModelSettings {
                        max_tokens: *max_tokens,
                        effort: effort.clone(),
                        temperature: *temperature,
                        top_p: *top_p,
                        stop: stop.clone(),
                        seed: *seed,
                        headers: headers.iter().map(hidden).collect(),
                        body: body.clone(),
                        cache: *cache,
                    },
                    sees: sees.clone(),
                    price: *price,
                }
            }
        }
    };
}

with_model_keys! {
    /// A language model that works with tools.
    struct LlmFile {
        /// The agent's instructions: the text itself, or the path of a file, relative to this one, such as `AGENTS.md`; or a list of these, one behind the other. None if absent.
        instructions: Option<InstructionsFile>,
        /// The path of a folder of skills, relative to this file: each of its folders has a `SKILL.md`. None if absent.
        skills_folder: Option<YamlText>,
        /// MCP servers whose tools it may call.
        #[serde(default)]
        tools: Vec<ToolServerFile>,
        /// Models that are asked, in this order, while those before give no answer.
        #[serde(default)]
        fallback: Vec<MapOrText<ModelFile>>,
        /// The most answers of models in a task; 50 if absent.
        #[schemars(range(min = 1))]
        rounds: Option<u32>,
        /// About how many tokens a conversation may have before old results of tools are dropped from it; that of the smallest model as its provider's file says if absent, else 200000.
        #[schemars(range(min = 1000))]
        context: Option<usize>,
    }
}

with_model_keys! {
    /// A further model; its name is enough.
    struct ModelFile {}
}

impl ShortForm for ModelFile {
    const KEY: &'static str = "model";
}

/// Texts of instructions, or the paths of files with them.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
enum InstructionsFile {
    One(String),
    Several(Vec<String>),
}

impl<'de> YamlForms<'de> for InstructionsFile {
    const EXPECTED: &'static str = "text, or a list of texts";

    fn of_text<E: Error>(text: &str) -> Result<Self, E> {
        Ok(Self::One(text.to_owned()))
    }

    fn of_list<A: SeqAccess<'de>>(list: A) -> Result<Self, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(Self::Several)
    }
}

impl<'de> Deserialize<'de> for InstructionsFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        forms::deserialize(deserializer)
    }
}

impl InstructionsFile {
    /// The instructions, all in one. A fault has its key and what is wrong.
    fn read(&self, base: Option<&Path>) -> Result<String, (String, String)> {
        let text = match self {
            Self::One(given) => {
                instructions(given, base).map_err(|what| ("instructions".to_owned(), what))?
            }
            Self::Several(given) => {
                let mut texts = Vec::new();
                for (at, given) in given.iter().enumerate() {
                    let text = instructions(given, base);
                    let text = text.map_err(|what| (format!("instructions[{at}]"), what))?;
                    texts.push(text.trim().to_owned());
                }
                texts.join("\n\n")
            }
        };
        if text.len() > MAX_INSTRUCTIONS {
            let what = format!(
                "are {} bytes, and at most {MAX_INSTRUCTIONS} are allowed: every call of a model has them",
                text.len()
            );
            return Err(("instructions".to_owned(), what));
        }
        Ok(text)
    }
}

/// The keys of a model.
struct ModelKeys<'a> {
    model: &'a str,
    url: Option<YamlText>,
    key: Option<YamlText>,
    dialect: Option<Dialect>,
    settings: ModelSettings,
    sees: Option<Vec<MediaKind>>,
    price: Option<TokenPrice>,
}

fn hidden((name, value): (&String, &YamlText)) -> (String, SecretString) {
    (name.clone(), SecretString::new(value.as_str().to_owned()))
}

/// An MCP server.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ToolServerFile {
    /// A command that speaks MCP, or the URL of a server.
    mcp: McpFile,
    /// What comes before the names of its tools where they collide; `server1`, `server2`, … if absent.
    name: Option<String>,
    /// The tools that may be called; all if absent. A name, or a pattern such as `git_*`.
    allow: Option<Vec<String>>,
    /// Tools of which a person decides on every call; names or patterns. Beats `allow`.
    #[serde(default)]
    ask: Vec<String>,
    /// The same as `ask`.
    #[serde(default)]
    approve: Vec<String>,
    /// Tools that are never called; names or patterns. Beats `ask`.
    #[serde(default)]
    deny: Vec<String>,
    /// Tools that look for something that takes time: calls of them that are equal, with equal results, do not fail the task.
    #[serde(default)]
    poll: Vec<String>,
    /// Whether calls that were interrupted may be repeated, whatever the server says about its tools.
    #[serde(default)]
    idempotent: bool,
    /// How long a call may take: milliseconds, or text like `30s`; 100 s if absent.
    #[schemars(with = "Option<engine::settings::EtaForms>")]
    timeout: Option<Eta>,
    /// Headers of every request to a URL, such as `Authorization`; best with `${VARIABLE}`.
    #[serde(default)]
    headers: BTreeMap<String, YamlText>,
}

/// Where an MCP server is.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
enum McpFile {
    /// A command that speaks MCP on its standard input and output.
    Command(#[schemars(length(min = 1))] Vec<YamlText>),
    /// The URL of a server that speaks streamable HTTP.
    Url(String),
}

impl<'de> YamlForms<'de> for McpFile {
    const EXPECTED: &'static str = "a sequence";

    fn of_text<E: Error>(text: &str) -> Result<Self, E> {
        Ok(Self::Url(text.to_owned()))
    }

    fn of_list<A: SeqAccess<'de>>(list: A) -> Result<Self, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(Self::Command)
    }
}

impl<'de> Deserialize<'de> for McpFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        forms::deserialize(deserializer)
    }
}

/// Whether the keys of providers are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProviderKeys {
    /// They are read, and one that is missing is a fault.
    #[default]
    Required,
    /// They are not read: a cassette answers.
    Unused,
}

impl ProviderKeys {
    /// Takes the keys of models out of an agent's YAML, so that the variables in them need not be set.
    pub(super) fn prepare(self, agent: &mut YamlNode) {
        let llm = agent.get_mut("brain").and_then(|brain| brain.get_mut("llm"));
        if let (Self::Unused, Some(llm)) = (self, llm) {
            drop(llm.remove("key"));
            if let Some(YamlValue::List(fallback)) = llm.get_mut("fallback").map(|node| &mut node.value) {
                fallback.iter_mut().for_each(|model| drop(model.remove("key")));
            }
        }
    }
}

/// What of an agent its brain needs beside its own settings.
pub(super) struct LlmSurroundings<'a> {
    pub(super) description: &'a str,
    /// The environment of its tool servers.
    pub(super) env: BTreeMap<String, String>,
    pub(super) dir: Option<PathBuf>,
    /// Where relative paths start.
    pub(super) base: Option<&'a Path>,
    pub(super) outputs: BTreeMap<Capability, OutputSchema>,
    pub(super) keys: ProviderKeys,
    pub(super) providers: &'a Providers,
}

/// The longest time without a report is two minutes.
const CALL: Duration = Duration::from_secs(100);
const ROUNDS: u32 = 50;
/// The most bytes of instructions.
const MAX_INSTRUCTIONS: usize = 256 << 10;
/// The smallest context of the models that Anthropic offers.
const CONTEXT: usize = 200_000;

impl LlmFile {
    /// The brain. A fault has the key below `brain.llm` and what is wrong.
    pub(super) fn config(&self, agent: LlmSurroundings<'_>) -> Result<LlmConfig, (String, String)> {
        let providers = agent.providers;
        let mut models = vec![self.keys().config("", None, (agent.keys, providers))?];
        for (at, MapOrText(fallback)) in self.fallback.iter().enumerate() {
            let prefix = format!("fallback[{at}].");
            models.push(fallback.keys().config(&prefix, models.first(), (agent.keys, providers))?);
        }
        let instructions = self.instructions.as_ref().map(|given| given.read(agent.base)).transpose()?;
        let mut instructions = instructions.unwrap_or_default();
        if self.rounds == Some(0) {
            return Err(("rounds".to_owned(), "must be at least 1".to_owned()));
        }
        let mut tools = Vec::new();
        for (at, server) in self.tools.iter().enumerate() {
            let config = server.config(at, &agent);
            tools.push(config.map_err(|(key, what)| (format!("tools[{at}].{key}"), what))?);
        }
        if let Some(folder) = &self.skills_folder {
            let folder = agent.base.map_or_else(|| folder.as_str().into(), |base| base.join(folder.as_str()));
            let folder = SkillFolder::read(&folder).map_err(|what| ("skillsFolder".to_owned(), what))?;
            instructions = format!("{}\n\n{}", instructions.trim_end(), folder.listing());
            tools.push(ToolServerConfig {
                name: "skills".to_owned(),
                transport: ToolServerTransport::Skills(folder),
                permissions: ToolPermissions::default(),
                poll: Vec::new(),
                idempotent: true,
                timeout: CALL,
            });
        }
        Ok(LlmConfig {
            description: agent.description.to_owned(),
            instructions,
            context: self.context.unwrap_or_else(|| context_of(&models)),
            models,
            tools,
            rounds: self.rounds.unwrap_or(ROUNDS),
            outputs: agent.outputs,
        })
    }
}

/// The context of the smallest model, as far as it is known.
fn context_of(models: &[ModelConfig]) -> usize {
    models.iter().filter_map(|model| model.rules.context).min().unwrap_or(CONTEXT)
}

/// The instructions: those of a file, or the text itself, which has more than one word.
fn instructions(given: &str, base: Option<&Path>) -> Result<String, String> {
    let path = base.map_or_else(|| given.into(), |base| base.join(given));
    let is_text = given.trim().contains(char::is_whitespace) && !path.is_file();
    if is_text {
        return Ok(given.to_owned());
    }
    let hint =
        if given.trim().contains(char::is_whitespace) { "" } else { "; one word is the path of a file" };
    text_file::read(&path).map_err(|error| format!("{} can't be read: {error}{hint}", path.display()))
}

impl ModelKeys<'_> {
    /// The model; one of the same provider has the key of `first`.
    fn config(
        self,
        prefix: &str,
        first: Option<&ModelConfig>,
        (keys, providers): (ProviderKeys, &Providers),
    ) -> Result<ModelConfig, (String, String)> {
        let fault = |key: &str, what: String| (format!("{prefix}{key}"), what);
        let own_url = self.url.as_ref().map(YamlText::as_str).filter(|url| !url.is_empty());
        // A cassette has answers of whatever name.
        let is_any = own_url.is_some() || keys == ProviderKeys::Unused;
        let found = providers.find(self.model, is_any).map_err(|what| fault("model", what))?;
        let provider = found.provider;
        let usual = provider.and_then(|provider| provider.url.as_deref());
        let Some(url) = own_url.or(usual).or((keys == ProviderKeys::Unused).then_some("http://localhost"))
        else {
            let what = "is missing: this provider has a URL for each customer; see docs/models-and-tools.md";
            return Err(fault("url", what.to_owned()));
        };
        let url = url.trim_end_matches('/').to_owned();
        if !url.starts_with("https://") && !url.starts_with("http://") {
            return Err(fault("url", format!("{:?} must be a URL, https or http", redact_url(&url))));
        }
        if has_credentials(&url) {
            return Err(fault("url", "must not carry a name or a password; `key` is for those".to_owned()));
        }
        let given = self.key.as_ref().map(|key| key.as_str().to_owned());
        let name = provider.and_then(|provider| provider.name.as_deref()).or(found.prefix);
        let name = name.unwrap_or("openai_compatible").to_owned();
        let of_first = first.filter(|first| first.provider == name && first.url == url);
        // The usual variable holds a key for the provider's own host, and is sent to no other.
        let is_usual = usual.is_none_or(|usual| usual.trim_end_matches('/') == url);
        let variable = provider.and_then(|provider| provider.key.as_deref()).filter(|_| is_usual);
        let key = given
            .map(SecretString::new)
            .or_else(|| of_first.and_then(|first| first.key.clone()))
            .or_else(|| Some(SecretString::new(variables::from_process(variable?)?)))
            .filter(|key| keys == ProviderKeys::Required && !key.expose().is_empty());
        let needs_key = provider.is_some_and(|provider| !provider.key_is_optional) && own_url.is_none();
        if let (None, true, Some(variable), ProviderKeys::Required) = (&key, needs_key, variable, keys) {
            let what = format!("is missing: `key: ${{{variable}}}`, or the environment variable {variable}");
            return Err(fault("key", what));
        }
        for name in self.settings.headers.keys() {
            if reqwest::header::HeaderName::from_bytes(name.as_bytes()).is_err() {
                return Err(fault("headers", format!("{name:?} is no name of a header")));
            }
        }
        let of_file = provider.and_then(|provider| match is_usual {
            true => provider.dialect,
            false => provider.dialect_elsewhere.or(provider.dialect),
        });
        let known = providers.rules(found);
        let rules = ModelRules { sees: self.sees.or(known.sees.clone()), ..known };
        let price = self.price.or(rules.price);
        let key_header = provider.and_then(|provider| provider.key_header.clone());
        Ok(ModelConfig {
            model: self.model.to_owned(),
            name: found.model.to_owned(),
            provider: name,
            dialect: self.dialect.or(of_file).unwrap_or(Dialect::Chat),
            is_dialect_set: self.dialect.is_some(),
            key_variable: key.as_ref().and_then(|key| variables::with_value(key.expose())),
            key,
            key_header: key_header.unwrap_or_else(|| "authorization".to_owned()).to_ascii_lowercase(),
            url,
            rules,
            settings: self.settings,
            price,
        })
    }
}

impl ToolServerFile {
    fn config(&self, at: usize, agent: &LlmSurroundings<'_>) -> Result<ToolServerConfig, (String, String)> {
        let fault = |key: &str, what: &str| (key.to_owned(), what.to_owned());
        let transport = match &self.mcp {
            McpFile::Command(words) => {
                let command: Vec<_> = words.iter().map(|word| word.as_str().to_owned()).collect();
                let search = agent.env.get("PATH").map(String::as_str);
                command_check::check(&command, agent.dir.as_deref(), search)
                    .map_err(|what| fault("mcp", &what))?;
                if !self.headers.is_empty() {
                    return Err(fault("headers", "are for a URL; a command gets the agent's `env`"));
                }
                ToolServerTransport::Stdio { command, env: agent.env.clone(), dir: agent.dir.clone() }
            }
            McpFile::Url(url) => {
                if !url.starts_with("https://") && !url.starts_with("http://") {
                    return Err(fault(
                        "mcp",
                        "must be a list, the command and its arguments, or a URL, https or http",
                    ));
                }
                if has_credentials(url) {
                    return Err(fault("mcp", "must not carry a name or a password; `headers` are for those"));
                }
                let headers = self.headers.iter().map(hidden).collect();
                ToolServerTransport::Http { url: url.clone(), headers }
            }
        };
        let timeout = self.timeout.map_or(CALL, Eta::duration);
        if timeout.is_zero() {
            return Err(fault("timeout", "must be more than 0"));
        }
        Ok(ToolServerConfig {
            name: self.name.clone().unwrap_or_else(|| format!("server{}", at + 1)),
            transport,
            permissions: ToolPermissions {
                deny: self.deny.clone(),
                ask: self.ask.iter().chain(&self.approve).cloned().collect(),
                allow: self.allow.clone(),
            },
            poll: self.poll.clone(),
            idempotent: self.idempotent,
            timeout,
        })
    }
}

impl LlmConfig {
    /// Whether one of its models sees this.
    pub(super) fn sees(&self, kind: MediaKind) -> bool {
        self.models.iter().any(|model| model.rules.sees.iter().flatten().any(|seen| *seen == kind))
    }

    /// The credentials in the configuration, which telemetry redacts.
    pub(super) fn secrets(&self) -> Vec<String> {
        let of_models = self.models.iter().flat_map(|model| model.settings.headers.values());
        let keys = self.models.iter().filter_map(|model| model.key.as_ref()).chain(of_models);
        let headers = self.tools.iter().flat_map(|server| match &server.transport {
            ToolServerTransport::Http { headers, .. } => headers.values().collect(),
            ToolServerTransport::Stdio { .. } | ToolServerTransport::Skills(_) => Vec::new(),
        });
        let mut secrets: Vec<_> = keys.chain(headers).map(|secret| secret.expose().to_owned()).collect();
        for server in &self.tools {
            match &server.transport {
                ToolServerTransport::Stdio { command, env, .. } => {
                    secrets.extend(env.iter().flat_map(|(name, value)| of_variable(name, value)));
                    secrets.extend(of_command(command));
                }
                ToolServerTransport::Http { url, .. } => secrets.extend(of_query(url)),
                ToolServerTransport::Skills(_) => {}
            }
        }
        secrets
    }
}
