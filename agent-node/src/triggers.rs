//! Triggers: how other systems begin tasks of an agent by webhook. A delivery proves its sender by the secret of the trigger, names
//! itself, and fills the templates of the task. The id of the task follows from that of the delivery: a delivery that comes again is
//! the same task.

mod proof;
mod template;

#[cfg(test)]
mod tests;

use crate::{inbox::own_request, outbox::a2a::credentials::SecretString};
use actix_web::http::header::HeaderMap;
use engine::{IncomingMessage, schedule::MAX_NAME, settings::EtaForms};
use protocol::{
    bid::Eta,
    ids::{AgentId, Capability, Digest, TaskId},
    json,
    principal::{Principal, SenderProof},
    problem::{Problem, Reason},
    task::{TaskOrigin, TaskTerms},
    time::WallTime,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use template::Template;

/// The longest id of a delivery, bytes.
const MAX_DELIVERY: usize = 256;
/// How much of a value is shown that does not fit, characters.
const MAX_SHOWN: usize = 80;
/// The minimum length of a secret, so that it can't be guessed.
const MIN_SECRET: usize = 16;
/// How old a signed time may be, if the file does not say.
const REPLAY_WINDOW: Eta = Eta(5 * 60_000);
/// Headers that templates don't see: they are credentials, or prove the sender.
const HIDDEN_HEADERS: [&str; 8] = [
    "authorization",
    "cookie",
    "proxy-authorization",
    "stripe-signature",
    "x-api-key",
    "x-hub-signature",
    "x-hub-signature-256",
    "webhook-signature",
];

/// A trigger, as the agent's file gives it.
// The doc comments are descriptions in the published JSON Schema.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TriggerFile {
    /// How a delivery proves its sender: `github` (X-Hub-Signature-256), `stripe` (Stripe-Signature), or `bearer` (the secret in Authorization).
    pub auth: TriggerAuth,
    /// The secret that the sender has, 16 characters at least; best as `${VARIABLE}`.
    pub secret: SecretString,
    /// The secret before it, which is accepted, too, while it is replaced.
    pub previous_secret: Option<SecretString>,
    /// The user whose rights its tasks have: one of `callers`, or `local`. Without it they have the rights of a program without a credential.
    #[schemars(with = "Option<String>", regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    pub act_as: Option<AgentId>,
    /// Which deliveries begin a task: each path of the delivery, such as `body.action` or `headers.x-github-event`, with the value or the list of values that it must have. All, if absent.
    #[serde(default)]
    pub when: BTreeMap<String, Value>,
    /// What is to be done. `{{ body.issue.title }}` stands for that part of the delivery.
    pub task: String,
    /// The capability that it needs; the agent itself does it if absent.
    #[schemars(with = "Option<String>", regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    pub capability: Option<Capability>,
    /// What to do it with: any JSON, whose texts may have `{{ … }}`; a text that is one placeholder alone becomes its value. The body if absent.
    pub input: Option<Value>,
    /// What names a delivery, such as `{{ headers.x-request-id }}`; if absent for github its signed body, for stripe `{{ body.id }}`, for bearer the header Idempotency-Key or Webhook-Id.
    pub delivery_id: Option<String>,
    /// How old a delivery may be, for stripe, which signs the time: milliseconds, or text like `5m`, which is meant if absent.
    #[schemars(with = "Option<EtaForms>")]
    pub replay_window: Option<Eta>,
}

/// How a delivery proves its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TriggerAuth {
    /// HMAC-SHA256 of the body in `X-Hub-Signature-256`, as GitHub signs.
    Github,
    /// HMAC-SHA256 of time and body in `Stripe-Signature`, as Stripe signs.
    Stripe,
    /// The secret in `Authorization: Bearer`.
    Bearer,
}

/// A trigger that is ready.
#[derive(Debug, Clone, PartialEq)]
pub struct Trigger {
    auth: TriggerAuth,
    /// The secret, and the one before it.
    secrets: Vec<SecretString>,
    act_as: Option<AgentId>,
    when: BTreeMap<Template, Vec<Value>>,
    task: Template,
    capability: Option<Capability>,
    input: Option<Value>,
    delivery_id: Option<Template>,
    replay_window: Eta,
}

/// What becomes of a delivery.
#[derive(Debug)]
pub enum Delivered {
    /// It begins this task.
    Begins { request: Box<IncomingMessage>, task: TaskId, by: Principal },
    /// It does not fit `when`; why is said.
    Ignored(String),
}

impl TriggerFile {
    /// The trigger. A fault has the key and what is wrong.
    pub fn ready(self) -> Result<Trigger, (String, String)> {
        let fault = |key: &str| {
            let key = key.to_owned();
            move |what: String| (key, what)
        };
        for (key, secret) in
            [("secret", Some(&self.secret)), ("previousSecret", self.previous_secret.as_ref())]
        {
            if secret.is_some_and(|secret| secret.expose().len() < MIN_SECRET) {
                return Err(fault(key)(format!("needs {MIN_SECRET} characters at least")));
            }
        }
        if self.replay_window.is_some() && self.auth != TriggerAuth::Stripe {
            return Err(fault("replayWindow")("is for `auth: stripe`; the others sign no time".to_owned()));
        }
        if self.replay_window == Some(Eta(0)) {
            return Err(fault("replayWindow")("must be at least 1".to_owned()));
        }
        let task = Template::parse(&self.task).map_err(fault("task"))?;
        if self.task.trim().is_empty() {
            return Err(fault("task")("says what is to be done; it is empty".to_owned()));
        }
        if let Some(input) = &self.input {
            template::check_value(input).map_err(fault("input"))?;
        }
        let delivery_id = self.delivery_id.as_deref().map(Template::parse).transpose();
        let mut when = BTreeMap::new();
        for (path, value) in self.when {
            let key = format!("when.{path}");
            let place = Template::path(&path).map_err(fault(&key))?;
            let values = match value {
                Value::Array(values) if !values.is_empty() => values,
                Value::Array(_) | Value::Object(_) => {
                    return Err(fault(&key)("must be a value, or a list of values".to_owned()));
                }
                value => vec![value],
            };
            when.insert(place, values);
        }
        Ok(Trigger {
            auth: self.auth,
            secrets: [self.secret].into_iter().chain(self.previous_secret).collect(),
            act_as: self.act_as,
            when,
            task,
            capability: self.capability,
            input: self.input,
            delivery_id: delivery_id.map_err(fault("deliveryId"))?,
            replay_window: self.replay_window.unwrap_or(REPLAY_WINDOW),
        })
    }
}

impl Trigger {
    /// Its secrets. The caller must not log them.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().map(SecretString::expose)
    }

    /// What becomes of a delivery to the trigger `name` of the agent `me`, with these headers and this body as it was sent. Fails if
    /// it does not prove its sender, or lacks what the trigger needs of it.
    pub(crate) fn deliver(
        &self,
        (me, name): (&AgentId, &str),
        (headers, body, max_depth): (&HeaderMap, &[u8], usize),
        now: WallTime,
    ) -> Result<Delivered, Problem> {
        proof::check(self, headers, body, now)?;
        let values = json!({ "headers": shown(headers), "body": json::parse(body, max_depth)? });
        for (path, wanted) in &self.when {
            let given = path.value(&values).unwrap_or_default();
            let is_wanted = |wanted: &Value| *wanted == given || given.as_str() == Some(&*wanted.to_string());
            if !wanted.iter().any(is_wanted) {
                let given: String = given.to_string().chars().take(MAX_SHOWN).collect();
                return Ok(Delivered::Ignored(format!("{path} is {given}")));
            }
        }
        let delivery = self.delivery(headers, body, &values)?;
        let lacking = |what: String| Problem::new(Reason::InvalidField, format!("trigger {name}: {what}"));
        let input = match &self.input {
            Some(input) => template::filled(input, &values).map_err(lacking)?,
            None => values["body"].clone(),
        };
        let terms = TaskTerms {
            capability: self.capability.clone(),
            input: Some(input),
            ..TaskTerms::new(self.task.text(&values).map_err(lacking)?)
        };
        let internal = |error: protocol::ids::BadId| Problem::new(Reason::Internal, error.to_string());
        let task = task_id(name, &delivery).map_err(internal)?;
        let (by, proof) = match &self.act_as {
            Some(user) => (Principal::User(user.clone()), SenderProof::Credential),
            None => (Principal::local_user(), SenderProof::Address),
        };
        let origin = TaskOrigin::Trigger { name: name.to_owned(), delivery };
        let request =
            own_request(me, (by.clone(), proof), (task.clone(), terms), origin).map_err(internal)?;
        Ok(Delivered::Begins { request: Box::new(request), task, by })
    }

    /// What names a delivery.
    fn delivery(&self, headers: &HeaderMap, body: &[u8], values: &Value) -> Result<String, Problem> {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (named, where_) = match (&self.delivery_id, self.auth) {
            (Some(template), _) => (template.text(values).ok(), "`deliveryId` of the trigger"),
            // The header is not signed: whoever has seen a delivery could send it again under another one.
            (None, TriggerAuth::Github) => (Some(format!("sha256:{}", Digest::of(body))), ""),
            (None, TriggerAuth::Stripe) => {
                (values["body"]["id"].as_str().map(str::to_owned), "`id` of the body")
            }
            (None, TriggerAuth::Bearer) => (
                header("idempotency-key").or_else(|| header("webhook-id")),
                "header Idempotency-Key or Webhook-Id; `deliveryId` of the trigger names another place",
            ),
        };
        match named.filter(|id| !id.trim().is_empty() && id.len() <= MAX_DELIVERY) {
            Some(id) => Ok(id),
            None => {
                let what = format!("the delivery has no id of at most {MAX_DELIVERY} bytes: {where_}");
                Err(Problem::new(Reason::InvalidField, what).with("field", "deliveryId"))
            }
        }
    }
}

/// The id of the task of a delivery to the trigger `name`.
fn task_id(name: &str, delivery: &str) -> Result<TaskId, protocol::ids::BadId> {
    debug_assert!(name.len() <= MAX_NAME);
    let digest = Digest::of(format!("{name}|{delivery}").as_bytes()).to_string();
    TaskId::parse(&format!("{name}-{}", &digest[..20]))
}

/// The headers that templates see, by their names in small letters. Of a header that comes twice the first counts.
fn shown(headers: &HeaderMap) -> Map<String, Value> {
    let mut shown = Map::new();
    for (name, value) in headers {
        if let Some(text) = value.to_str().ok().filter(|_| !HIDDEN_HEADERS.contains(&name.as_str())) {
            shown.entry(name.as_str()).or_insert_with(|| text.into());
        }
    }
    shown
}
