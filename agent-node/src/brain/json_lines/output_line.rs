//! The lines of the brain protocol as a brain writes them. Their doc comments are the descriptions in the published JSON
//! Schema. Unknown members are refused by name.

use super::BrainLine;
use protocol::{
    a2a::json::base64_of_any_kind,
    artifact::{Artifact, Part, PartContent},
    bid::{Cost, Eta, Fraction},
    budget::Budget,
    ids::{Address, Capability},
    patterns::{
        contract_net::bidding::BidAnswer,
        open_task,
        turn::{Checkpoint, Progress, TurnEnd},
    },
    question::{OnTimeout, Question, QuestionKind},
    signal::SignalType,
    time::WallTime,
    usage::{ModelUsage, ToolUse},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

/// One line of a brain's output.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub(super) enum OutputLine {
    /// Progress, for people.
    Status {
        /// How far it is.
        message: String,
    },
    /// A result, or a piece of one: `name` and one of `text`, `data`, `raw` and `url`, or a whole A2A artifact.
    Artifact(Box<ArtifactLine>),
    /// A signal for the board.
    Signal {
        /// Its type: `task.available`, `help.needed`, or a type of your own.
        #[schemars(with = "String")]
        signal: SignalType,
        /// What it is about.
        #[serde(default)]
        subject: Option<String>,
        /// The capability it concerns.
        #[serde(default)]
        #[schemars(with = "Option<String>")]
        capability: Option<Capability>,
        /// References to the content.
        #[serde(default)]
        refs: Map<String, Value>,
    },
    /// A question to peers: `capability`, or `to`.
    Help {
        /// Your name for it; its answer has it.
        id: String,
        /// Whose view is wanted: a capability.
        #[serde(default)]
        #[schemars(with = "Option<String>")]
        capability: Option<Capability>,
        /// Whose view is wanted: an agent's id, or `capability:NAME`.
        #[serde(default)]
        #[schemars(with = "Option<String>")]
        to: Option<Address>,
        /// What is asked.
        question: String,
        /// Ids of artifacts that it is about.
        #[serde(default)]
        artifacts: Vec<String>,
        /// What its doer may use. Without it, and if the task is bounded, a share of what is free.
        #[serde(default)]
        #[schemars(with = "Option<BudgetForms>")]
        budget: Budget,
        /// Whether the turn ends with it (`true` if absent). With `false` it is sent at once, and the turn goes on.
        #[serde(default = "yes")]
        wait: bool,
    },
    /// A task for another agent.
    Delegate {
        /// Your name for it; its answer has it.
        id: String,
        /// Who: an agent's id, or `capability:NAME`.
        #[schemars(with = "String")]
        to: Address,
        /// By which of the agent's capabilities, if `to` is an agent.
        #[serde(default)]
        #[schemars(with = "Option<String>")]
        capability: Option<Capability>,
        /// The description of the work.
        description: String,
        /// What to do it with.
        #[serde(default)]
        input: Option<Value>,
        /// Ids of artifacts that go with it.
        #[serde(default)]
        artifacts: Vec<String>,
        /// What its doer may use. Without it, and if the task is bounded, a share of what is free.
        #[serde(default)]
        #[schemars(with = "Option<BudgetForms>")]
        budget: Budget,
        /// Whether the turn ends with it (`true` if absent). With `false` it is sent at once, and the turn goes on.
        #[serde(default = "yes")]
        wait: bool,
    },
    /// A question to a person: the task's owner.
    Question {
        /// Your name for it; its answer has it.
        id: String,
        /// What kind of answer it wants (`text` if absent).
        #[serde(default)]
        #[schemars(with = "Option<KindForms>")]
        kind: QuestionKind,
        /// What is asked.
        text: String,
        /// The JSON Schema of a form: an object of simple values.
        #[serde(default)]
        schema: Option<Value>,
        /// What a choice is made of.
        #[serde(default)]
        options: Vec<String>,
        /// The call that an approval is about: its name and arguments.
        #[serde(default)]
        call: Option<Value>,
        /// When it is no longer open (RFC 3339); never if absent.
        #[serde(default)]
        #[schemars(with = "Option<String>")]
        expires_at: Option<WallTime>,
        /// What happens then (`continue` if absent). It never approves.
        #[serde(default)]
        #[schemars(with = "Option<OnTimeoutForms>")]
        on_timeout: Option<OnTimeout>,
        /// Whether the turn ends with it (`true` if absent). With `false` it is asked at once, and the turn goes on.
        #[serde(default = "yes")]
        wait: bool,
    },
    /// A note to yourself. Every later turn of the task is given it, also after a crash.
    Checkpoint {
        /// What is noted.
        data: Value,
        /// Whether it makes all earlier ones obsolete.
        #[serde(default)]
        replace: bool,
    },
    /// What one call of a model has used.
    Usage {
        /// The model.
        model: String,
        /// Tokens that it read.
        input_tokens: u64,
        /// Tokens that it wrote.
        output_tokens: u64,
        /// The cost, in the unit of the mesh; unknown if absent.
        #[serde(default)]
        #[schemars(with = "Option<f64>", range(min = 0))]
        cost: Option<Cost>,
        /// Who serves the model, such as `anthropic`.
        #[serde(default)]
        provider: Option<String>,
        /// Why the answer ended: `stop`, `length`, `content_filter` or `tool_call`.
        #[serde(default)]
        finish_reason: Option<String>,
        /// How long the call took, milliseconds.
        #[serde(default)]
        duration_ms: Option<u64>,
        /// Why there is no answer, as a code such as `429`.
        #[serde(default)]
        error: Option<String>,
    },
    /// A call of a tool that has ended, for traces and metrics.
    Tool {
        /// The id of the call, unique in the task.
        id: String,
        /// The tool.
        name: String,
        /// How long the call took, milliseconds.
        #[serde(default)]
        duration_ms: Option<u64>,
        /// Why it failed, as a code such as `tool_error`.
        #[serde(default)]
        error: Option<String>,
    },
    /// A line for the node's log.
    Log {
        /// The line.
        message: String,
    },
    /// Ends the task.
    Done {
        /// A summary; needed if there is no artifact.
        #[serde(default)]
        message: Option<String>,
    },
    /// Ends the turn without a result.
    Failed {
        /// Why.
        reason: String,
    },
    /// The same for good: this agent is not asked again.
    Rejected {
        /// Why.
        reason: String,
    },
    /// Ends the turn with a message.
    Message {
        /// The message.
        text: String,
    },
    /// Answers a call for proposals with a bid. What is absent is as in the computed bid.
    Bid {
        /// The cost of the task, in the unit of the mesh.
        #[serde(default)]
        #[schemars(with = "Option<f64>", range(min = 0))]
        cost: Option<Cost>,
        /// The duration of the task: milliseconds, or text like `2m`.
        #[serde(default)]
        #[schemars(with = "Option<DurationForms>")]
        eta: Option<Eta>,
        /// How well it fits, from 0 to 1. It can lower, never raise, what the card says.
        #[serde(default, rename = "match")]
        #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
        capability_match: Option<Fraction>,
    },
    /// Answers a call for proposals without a bid.
    #[serde(rename = "no-bid")]
    NoBid {
        /// Why.
        reason: String,
    },
    /// Ends the turn until an answer comes: all of those with `wait: true`, or else the first of the others.
    Wait {},
    /// Ends the turn for a while. It begins again with the same checkpoints.
    Pause {
        /// How long, milliseconds.
        after_ms: u64,
        /// Why.
        reason: String,
    },
}

/// A result, or a piece of one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ArtifactLine {
    /// A whole A2A artifact, instead of the members below but `append` and `lastChunk`.
    #[serde(default)]
    #[schemars(with = "Option<Map<String, Value>>")]
    artifact: Option<Artifact>,
    /// Its name.
    #[serde(default)]
    name: Option<String>,
    /// Its id; the name if absent.
    #[serde(default)]
    artifact_id: Option<String>,
    /// For people.
    #[serde(default)]
    description: Option<String>,
    /// The media type of its content.
    #[serde(default)]
    media_type: Option<String>,
    /// Its content as text.
    #[serde(default)]
    text: Option<String>,
    /// Its content as JSON.
    #[serde(default, deserialize_with = "given")]
    data: Option<Value>,
    /// Its content as base64.
    #[serde(default)]
    raw: Option<String>,
    /// Where its content is.
    #[serde(default)]
    url: Option<String>,
    /// The name of its file.
    #[serde(default)]
    filename: Option<String>,
    /// Whether it joins the artifact of the same id; otherwise it replaces it.
    #[serde(default)]
    append: bool,
    /// Whether no piece follows.
    #[serde(default)]
    last_chunk: bool,
}

/// Bounds of tokens and cost.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct BudgetForms {
    /// Tokens of models, in and out.
    tokens: Option<u64>,
    /// Cost, in the unit of the mesh.
    #[schemars(range(min = 0))]
    cost: Option<f64>,
}

#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum DurationForms {
    Millis(u64),
    Text(String),
}

#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
enum KindForms {
    Text,
    Choice,
    Form,
    Approval,
    Credential,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "only its schema is used")]
enum OnTimeoutForms {
    /// The next turn begins without an answer: `ok` is false, and an approval is denied.
    Continue,
    /// The task fails.
    Fail,
    /// This text counts as the answer. Only for texts and choices.
    Answer(String),
}

fn yes() -> bool {
    true
}

/// A member that is given, also as `null`.
fn given<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

impl ArtifactLine {
    fn into_progress(self) -> Result<Progress, String> {
        let (append, last_chunk) = (self.append, self.last_chunk);
        let artifact = match self {
            Self {
                artifact: Some(artifact),
                name: None,
                text: None,
                data: None,
                raw: None,
                url: None,
                ..
            } => artifact,
            Self { artifact: Some(_), .. } => {
                return Err("\"artifact\" is a whole artifact; beside it only \"append\" and \"lastChunk\""
                    .to_owned());
            }
            short => short.into_artifact()?,
        };
        for part in &artifact.parts {
            if let PartContent::Raw(text) = &part.content {
                base64_of_any_kind(text.clone()).map_err(|invalid| format!("\"raw\": {invalid}"))?;
            }
        }
        Ok(Progress::Artifact { artifact, append, last_chunk })
    }

    fn into_artifact(self) -> Result<Artifact, String> {
        let name = self.name.ok_or("missing field `name`")?;
        let contents = [
            self.text.map(PartContent::Text),
            self.data.map(PartContent::Data),
            self.raw.map(PartContent::Raw),
            self.url.map(PartContent::Url),
        ];
        let mut contents = contents.into_iter().flatten();
        let (Some(content), None) = (contents.next(), contents.next()) else {
            return Err(
                "an artifact needs exactly one of text, data, raw, url; or the full form in \"artifact\""
                    .into(),
            );
        };
        let part = Part { media_type: self.media_type, filename: self.filename, ..Part::new(content) };
        Ok(Artifact {
            artifact_id: self.artifact_id.unwrap_or_else(|| name.clone()),
            name: Some(name),
            description: self.description,
            parts: vec![part],
            metadata: Map::new(),
            extensions: Vec::new(),
        })
    }
}

impl TryFrom<OutputLine> for BrainLine {
    type Error = String;

    fn try_from(line: OutputLine) -> Result<Self, String> {
        let progress = match line {
            OutputLine::Status { message } => Progress::Status { message },
            OutputLine::Artifact(artifact) => artifact.into_progress()?,
            OutputLine::Signal { signal, .. } if signal.is_registrys() => {
                return Err(format!("\"signal\": only the registry publishes {signal}"));
            }
            OutputLine::Signal { signal, .. } if signal.is_lifecycle() => {
                return Err(format!("\"signal\": only the mesh publishes {signal}, as it happens"));
            }
            OutputLine::Signal { signal, subject, refs, .. }
                if signal == SignalType::task_available()
                    && open_task::description(&refs, subject.as_deref()).is_none() =>
            {
                let problem = "\"subject\": an offer says what is to be done, here or in refs.description";
                return Err(problem.to_owned());
            }
            OutputLine::Signal { signal, subject, capability, refs } => {
                Progress::Signal { signal, subject, capability, refs }
            }
            OutputLine::Help { id, capability, to, question, artifacts, budget, wait } => {
                let to = match (capability, to) {
                    (Some(capability), None) => Address::Capability(capability),
                    (None, Some(to)) => to,
                    _ => return Err("exactly one of \"capability\" and \"to\" is needed".to_owned()),
                };
                Progress::Help { id, to, question, artifacts, budget, wait }
            }
            OutputLine::Delegate { id, to, capability, description, input, artifacts, budget, wait } => {
                Progress::Delegate { id, to, capability, description, input, artifacts, budget, wait }
            }
            OutputLine::Question { id, kind, text, schema, options, call, expires_at, on_timeout, wait } => {
                let question =
                    Question { id, kind, text, schema, options, call, expires_at, on_timeout, wait };
                question.validate()?;
                Progress::Question(question)
            }
            OutputLine::Checkpoint { data, replace } => Progress::Checkpoint(Checkpoint { data, replace }),
            OutputLine::Usage {
                model,
                input_tokens,
                output_tokens,
                cost,
                provider,
                finish_reason,
                duration_ms,
                error,
            } => {
                let call = ModelUsage {
                    model,
                    input_tokens,
                    output_tokens,
                    cost,
                    provider,
                    finish_reason,
                    duration_ms,
                    error,
                };
                call.validate()?;
                Progress::Usage(call)
            }
            OutputLine::Tool { id, name, duration_ms, error } => {
                let call = ToolUse { id, name, duration_ms, error };
                call.validate()?;
                Progress::Tool(call)
            }
            OutputLine::Log { message } => Progress::Log { message },
            OutputLine::Done { message } => return Ok(Self::End(TurnEnd::Done { message })),
            OutputLine::Failed { reason } => return Ok(Self::End(TurnEnd::Failed { reason })),
            OutputLine::Rejected { reason } => return Ok(Self::End(TurnEnd::Rejected { reason })),
            OutputLine::Message { text } => return Ok(Self::End(TurnEnd::Message { text })),
            OutputLine::Bid { cost, eta, capability_match } => {
                return Ok(Self::Bid(BidAnswer::Bid { cost, eta, capability_match }));
            }
            OutputLine::NoBid { reason } => return Ok(Self::Bid(BidAnswer::NoBid { reason })),
            OutputLine::Wait {} => return Ok(Self::End(TurnEnd::Waiting)),
            OutputLine::Pause { after_ms, reason } => {
                return Ok(Self::End(TurnEnd::Pause { after_ms, reason }));
            }
        };
        Ok(Self::Progress(progress))
    }
}
