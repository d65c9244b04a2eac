//! The `llm` brain in the YAML: models, keys, tools, prices.

use super::{
    ConfigFault, command_check,
    forms::{MapOrShort, OneOrMany, ShortForm},
    login::LoginFile,
    sources::SourceLocation,
    text::{YamlText, texts},
    variables,
    yaml::{YamlNode, YamlValue},
};
use crate::{
    brain::llm::{
        LlmConfig,
        model::MediaKind,
        output::OutputSchema,
        provider::{Dialect, ModelConfig, ModelRules, ModelSettings, Providers, TokenPrice},
        skill_folder::SkillFolder,
        tool_hook::ToolHooks,
        tool_permission::ToolPermissions,
        tool_server::{ToolServerConfig, ToolServerTransport},
    },
    outbox::a2a::credentials::SecretString,
    telemetry::capture::{of_command, of_query, of_variable},
    text_file,
};
use protocol::{bid::Eta, ids::Capability};
use schemars::JsonSchema;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::json;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};
use transport::http_client::{has_credentials, redact_url};

/// A language model that works with tools.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(
    dead_code,
    reason = "its parts are read one by one: serde loses the keys of faults in what it flattens"
)]
pub(super) struct LlmFile {
    #[serde(flatten)]
    model: ModelFile,
    #[serde(flatten)]
    members: LlmMembers,
}

/// What an `llm` brain has beside its model.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct LlmMembers {
    /// The agent's instructions: the text itself, or the path of a file, relative to this one, such as `AGENTS.md`; or a list of these, one behind the other. None if absent.
    instructions: Option<OneOrMany<String>>,
    /// The path of a folder of skills, relative to this file: each of its folders has a `SKILL.md`. None if absent.
    skills_folder: Option<YamlText>,
    /// MCP servers whose tools it may call.
    #[serde(default)]
    tools: Vec<ToolServerFile>,
    /// Commands that see a call of a tool server before it is made, its result, and the answer at the end of a turn, and allow, deny or replace it.
    tool_hooks: Option<ToolHooksFile>,
    /// Models that are asked, in this order, while those before give no answer.
    #[serde(default)]
    #[schemars(with = "Vec<MapOrShort<ModelFile>>")]
    fallback: Vec<IgnoredAny>,
    /// The most answers of models in a task; 50 if absent.
    #[schemars(range(min = 1))]
    rounds: Option<u32>,
    /// About how many tokens a conversation may have before old results of tools are dropped from it; that of the smallest model as its provider's file says if absent, else 200000.
    #[schemars(range(min = 1000))]
    context: Option<usize>,
}

/// A model; its name is enough.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(
    dead_code,
    reason = "its parts are read one by one: serde loses the keys of faults in what it flattens"
)]
struct ModelFile {
    #[serde(flatten)]
    members: ModelMembers,
    #[serde(flatten)]
    settings: ModelSettings,
}

/// What is checked of a model's keys; the rest is [`ModelSettings`].
#[derive(Debug, Deserialize, JsonSchema)]
struct ModelMembers {
    /// The model: the name of a provider, a slash, and its name there, such as `anthropic/…` or `ollama/…`; with `url` any model of a server that speaks OpenAI's format.
    model: String,
    /// The base URL of the provider, such as `http://localhost:8080/v1`; the provider's own if absent or empty.
    url: Option<YamlText>,
    /// The key, best as `${VARIABLE}`; if absent, and without a `url`, the variable that the provider's own clients read.
    key: Option<SecretString>,
    /// The format of requests: `chat`, `responses` or `messages`; that of the provider if absent.
    dialect: Option<Dialect>,
    /// What it sees besides text: `image`, `pdf`; as its provider's file says if absent, which is nothing of an unknown model.
    sees: Option<Vec<MediaKind>>,
    /// What a million tokens cost, in the unit of the mesh; as its provider's file says if absent, which may be unknown.
    price: Option<TokenPrice>,
}

impl ShortForm for ModelFile {
    const KEY: &'static str = "model";
}

/// Commands that read a line of JSON and write their verdict; one that fails or is late denies.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ToolHooksFile {
    /// Before a call of a tool server: denies it, or replaces its arguments.
    #[schemars(length(min = 1))]
    before: Option<Vec<YamlText>>,
    /// After a call: withholds or replaces its result.
    #[schemars(length(min = 1))]
    after: Option<Vec<YamlText>>,
    /// When the model has answered: denies the end of the turn, so that the model is asked again.
    #[schemars(length(min = 1))]
    end: Option<Vec<YamlText>>,
    /// How long each may take: milliseconds, or text like `10s`; 10 s if absent.
    #[schemars(with = "Option<engine::settings::EtaForms>")]
    within: Option<Eta>,
}

impl ToolHooksFile {
    /// The hooks, with the environment and the directory of the agent. A fault has the key below `toolHooks` and what is wrong.
    fn config(&self, agent: &LlmSurroundings<'_>) -> Result<ToolHooks, (String, String)> {
        let command = |key: &str, words: &Option<Vec<YamlText>>| -> Result<_, (String, String)> {
            let Some(words) = words else { return Ok(None) };
            let words = texts(words);
            let search = agent.env.get("PATH").map(String::as_str);
            command_check::check(&words, agent.dir.as_deref(), search)
                .map_err(|what| (key.to_owned(), what))?;
            Ok(Some(words))
        };
        let hooks = ToolHooks {
            before: command("before", &self.before)?,
            after: command("after", &self.after)?,
            end: command("end", &self.end)?,
            within: self.within.map_or(HOOK, Eta::duration),
            env: agent.env.clone(),
            dir: agent.dir.clone(),
        };
        if hooks.commands().next().is_none() {
            return Err((String::new(), "names no hook; there are before, after and end".to_owned()));
        }
        if hooks.within.is_zero() {
            return Err(("within".to_owned(), "must be more than 0".to_owned()));
        }
        Ok(hooks)
    }
}

/// The instructions, all in one. A fault has its key and what is wrong.
fn read_instructions(all: &OneOrMany<String>, base: Option<&Path>) -> Result<String, (String, String)> {
    let texts = all.keyed("instructions").map(|(key, given)| {
        let text = instructions(given, base).map_err(|what| (key, what));
        text.map(|text| if matches!(all, OneOrMany::One(_)) { text } else { text.trim().to_owned() })
    });
    let text = texts.collect::<Result<Vec<_>, _>>()?.join("\n\n");
    if text.len() > MAX_INSTRUCTIONS {
        let what = format!(
            "are {} bytes, and at most {MAX_INSTRUCTIONS} are allowed: every call of a model has them",
            text.len()
        );
        return Err(("instructions".to_owned(), what));
    }
    Ok(text)
}

/// An MCP server.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ToolServerFile {
    /// A command that speaks MCP on its standard input and output, as a list; or the URL of a server that speaks streamable HTTP.
    mcp: OneOrMany<YamlText>,
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
    /// `user` tells the server in each call whom it is for, by a token that the agent signs; nothing if absent.
    forward: Option<ForwardFile>,
    /// Headers of every request to a URL, such as `Authorization`; best with `${VARIABLE}`.
    #[serde(default)]
    headers: BTreeMap<String, SecretString>,
    /// The login at a URL by OAuth: `agent` or `user`, or a map with the client; none if absent.
    login: Option<MapOrShort<LoginFile>>,
}

/// What a tool server is told of a task.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ForwardFile {
    /// The principal at its root, and whether it is proven.
    User,
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
/// How long a hook may take.
const HOOK: Duration = Duration::from_secs(10);
/// The most bytes of instructions.
const MAX_INSTRUCTIONS: usize = 256 << 10;
/// The smallest context of the models that Anthropic offers.
const CONTEXT: usize = 200_000;

/// The key of the brain in its agent's YAML.
const KEY: &str = "brain.llm";

/// The `llm` brain of the agent at `location`.
pub(super) fn config(
    location: &SourceLocation<'_>,
    agent: &LlmSurroundings<'_>,
) -> Result<LlmConfig, ConfigFault> {
    let brain: LlmMembers = location.read_at(KEY)?;
    let mut models = vec![model(location, KEY, None, agent)?];
    for at in 0..brain.fallback.len() {
        models.push(model(location, &format!("{KEY}.fallback[{at}]"), models.first(), agent)?);
    }
    brain.config(models, agent).map_err(|(key, what)| location.fault(&format!("{KEY}.{key}"), what))
}

/// The model at `key`.
fn model(
    location: &SourceLocation<'_>,
    key: &str,
    first: Option<&ModelConfig>,
    agent: &LlmSurroundings<'_>,
) -> Result<ModelConfig, ConfigFault> {
    let given = location.node.at(key).map(YamlNode::to_json).unwrap_or_default();
    let given = if given.is_string() { json!({ ModelFile::KEY: given }) } else { given };
    let (model, settings): (ModelMembers, _) =
        (location.read_as(key, given.clone())?, location.read_as(key, given)?);
    let config = model.config(settings, first, (agent.keys, agent.providers));
    config.map_err(|(below, what)| location.fault(&format!("{key}.{below}"), what))
}

impl LlmMembers {
    /// The brain. A fault has the key below `brain.llm` and what is wrong.
    fn config(
        &self,
        models: Vec<ModelConfig>,
        agent: &LlmSurroundings<'_>,
    ) -> Result<LlmConfig, (String, String)> {
        let instructions =
            self.instructions.as_ref().map(|given| read_instructions(given, agent.base)).transpose()?;
        let mut instructions = instructions.unwrap_or_default();
        if self.rounds == Some(0) {
            return Err(("rounds".to_owned(), "must be at least 1".to_owned()));
        }
        let mut tools = Vec::new();
        for (at, server) in self.tools.iter().enumerate() {
            let config = server.config(at, agent);
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
                forwards_user: false,
                timeout: CALL,
            });
        }
        let hooks = self.tool_hooks.as_ref().map(|hooks| hooks.config(agent)).transpose();
        let hooks = hooks.map_err(|(key, what)| {
            let key = if key.is_empty() { "toolHooks".to_owned() } else { format!("toolHooks.{key}") };
            (key, what)
        })?;
        Ok(LlmConfig {
            hooks: hooks.unwrap_or_default(),
            description: agent.description.to_owned(),
            instructions,
            context: self.context.unwrap_or_else(|| context_of(&models)),
            models,
            tools,
            rounds: self.rounds.unwrap_or(ROUNDS),
            outputs: agent.outputs.clone(),
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

impl ModelMembers {
    /// The model with `settings`; one of the same provider has the key of `first`. A fault has the key below and what is wrong.
    fn config(
        self,
        settings: ModelSettings,
        first: Option<&ModelConfig>,
        (keys, providers): (ProviderKeys, &Providers),
    ) -> Result<ModelConfig, (String, String)> {
        let fault = |key: &str, what: String| (key.to_owned(), what);
        let own_url = self.url.as_ref().map(YamlText::as_str).filter(|url| !url.is_empty());
        // A cassette has answers of whatever name.
        let is_any = own_url.is_some() || keys == ProviderKeys::Unused;
        let found = providers.find(&self.model, is_any).map_err(|what| fault("model", what))?;
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
        let name = provider.and_then(|provider| provider.name.as_deref()).or(found.prefix);
        let name = name.unwrap_or("openai_compatible").to_owned();
        let of_first = first.filter(|first| first.provider == name && first.url == url);
        // The usual variable holds a key for the provider's own host, and is sent to no other.
        let is_usual = usual.is_none_or(|usual| usual.trim_end_matches('/') == url);
        let variable = provider.and_then(|provider| provider.key.as_deref()).filter(|_| is_usual);
        let key = self
            .key
            .or_else(|| of_first.and_then(|first| first.key.clone()))
            .or_else(|| Some(SecretString::new(variables::from_process(variable?)?)))
            .filter(|key| keys == ProviderKeys::Required && !key.expose().is_empty());
        let needs_key = provider.is_some_and(|provider| !provider.key_is_optional) && own_url.is_none();
        if let (None, true, Some(variable), ProviderKeys::Required) = (&key, needs_key, variable, keys) {
            let what = format!("is missing: `key: ${{{variable}}}`, or the environment variable {variable}");
            return Err(fault("key", what));
        }
        for name in settings.headers.keys() {
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
            name: found.model.to_owned(),
            model: self.model,
            provider: name,
            dialect: self.dialect.or(of_file).unwrap_or(Dialect::Chat),
            is_dialect_set: self.dialect.is_some(),
            key_variable: key.as_ref().and_then(|key| variables::with_value(key.expose())),
            key,
            key_header: key_header.unwrap_or_else(|| "authorization".to_owned()).to_ascii_lowercase(),
            url,
            rules,
            settings,
            price,
        })
    }
}

impl ToolServerFile {
    fn config(&self, at: usize, agent: &LlmSurroundings<'_>) -> Result<ToolServerConfig, (String, String)> {
        let fault = |key: &str, what: &str| (key.to_owned(), what.to_owned());
        let transport = match &self.mcp {
            OneOrMany::Many(words) => {
                let command = texts(words);
                let search = agent.env.get("PATH").map(String::as_str);
                command_check::check(&command, agent.dir.as_deref(), search)
                    .map_err(|what| fault("mcp", &what))?;
                if self.login.is_some() {
                    return Err(fault("login", "is for a URL; a command gets the agent's `env`"));
                }
                if !self.headers.is_empty() {
                    return Err(fault("headers", "are for a URL; a command gets the agent's `env`"));
                }
                ToolServerTransport::Stdio { command, env: agent.env.clone(), dir: agent.dir.clone() }
            }
            OneOrMany::One(YamlText(url)) => {
                if !url.starts_with("https://") && !url.starts_with("http://") {
                    return Err(fault(
                        "mcp",
                        "must be a list, the command and its arguments, or a URL, https or http",
                    ));
                }
                if has_credentials(url) {
                    return Err(fault("mcp", "must not carry a name or a password; `headers` are for those"));
                }
                let headers = &self.headers;
                let login = self.login.as_ref().map(|MapOrShort(login)| login.config(url)).transpose();
                let login = login.map_err(|(key, what)| fault(key, &what))?;
                if login.is_some() && headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
                    return Err(fault("login", "sends `Authorization`: leave it out of `headers`"));
                }
                ToolServerTransport::Http { url: url.clone(), headers: headers.clone(), login }
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
            forwards_user: self.forward.is_some(),
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
            ToolServerTransport::Http { headers, login, .. } => {
                let client = login.iter().filter_map(|login| login.client.as_ref()?.1.as_ref());
                headers.values().chain(client).collect::<Vec<_>>()
            }
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
        let hooks = &self.hooks;
        secrets.extend(hooks.env.iter().flat_map(|(name, value)| of_variable(name, value)));
        secrets.extend(hooks.commands().flat_map(|command| of_command(command)));
        secrets
    }
}
