//! The names of all span attributes. Those of OpenTelemetry are from the semantic conventions 1.37 (GenAI and messaging, both
//! in development), those of Langfuse from version 4 of its OpenTelemetry endpoint. A test compares this list with
//! `deploy/config/TELEMETRY.md`.

macro_rules! names {
    ($($(#[doc = $doc:literal])* $name:ident = $text:literal;)*) => {
        $($(#[doc = $doc])* pub const $name: &str = $text;)*

        /// All of them, each with what it says.
        pub const ALL: &[(&str, &str)] = &[$(($text, concat!($($doc),*)),)*];
    };
}

names! {
    /// What the span is: `receive`, `conversation`, `cfp`, `bid`, `award`, `claim`, `think`, `chat`, `tool`, `tell`, `space` or `publish`.
    MESH_SPAN = "mesh.span";
    /// Who sent the message, or who is at work.
    PEER_FROM = "peer.from";
    /// Whom the message is for.
    PEER_TO = "peer.to";
    /// The message's `type`, or the signal's.
    MESH_TYPE = "mesh.message.type";
    /// The message's id, or the signal's; of a conversation, the one's that began it.
    MESH_MESSAGE = "mesh.message.id";
    /// The task.
    MESH_TASK = "mesh.task.id";
    /// The conversation, on its agent; of a bid, which is written nowhere, the manager's.
    MESH_CONVERSATION = "mesh.conversation.id";
    /// The coordination pattern: `delegation`, `session`, `contract-net`, `help-request` and so on.
    MESH_PATTERN = "mesh.pattern";
    /// The capability that is wanted.
    MESH_SKILL = "mesh.skill";
    /// The award or claim that work is done under.
    MESH_EPOCH = "mesh.epoch";
    /// The state that the task ended in.
    MESH_STATE = "mesh.task.state";
    /// Who did it, where another agent did.
    MESH_DOER = "mesh.doer";
    /// Which of a conversation's turns of thought it is, from 1.
    MESH_TURN = "mesh.turn";
    /// The entries of the brief that the turn was given, each as `id@version`.
    MESH_BRIEF_INCLUDED = "mesh.brief.included";
    /// The entries that did not fit into it, each as `id@version: why`.
    MESH_BRIEF_OMITTED = "mesh.brief.omitted";
    /// Why the turn was given no brief, or when what it was given was known.
    MESH_BRIEF_NOTE = "mesh.brief.note";
    /// The stage of a session that the message is a turn of.
    MESH_STAGE = "mesh.session.stage";
    /// The seat whose turn it is.
    MESH_SEAT = "mesh.session.seat";
    /// The round of the turn.
    MESH_ROUND = "mesh.session.round";
    /// How often the stage has been begun.
    MESH_ITERATION = "mesh.session.iteration";
    /// What a bid offered: its cost.
    MESH_BID_COST = "mesh.bid.cost";
    /// What a bid offered: the time it needs, milliseconds.
    MESH_BID_ETA = "mesh.bid.eta_ms";
    /// What the doer of a task may use: tokens.
    MESH_BUDGET_TOKENS = "mesh.budget.tokens";
    /// What the doer of a task may use: cost.
    MESH_BUDGET_COST = "mesh.budget.cost";
    /// What a task has used when it ended, that of other agents included: tokens.
    MESH_USED_TOKENS = "mesh.used.tokens";
    /// What a call of a model cost, in the unit of the mesh; absent if the price is unknown.
    MESH_USAGE_COST = "mesh.usage.cost";
    /// Why it came to nothing, as a `reasonCode`, or in one word.
    ERROR_TYPE = "error.type";

    /// GenAI: `invoke_agent` on conversations, `chat` on calls of models, `execute_tool` on calls of tools.
    GEN_AI_OPERATION = "gen_ai.operation.name";
    /// GenAI: who serves the model (`anthropic`, `openai`, `gcp.gemini`, `ollama`, `openai_compatible`); on conversations `agent-mesh`.
    GEN_AI_PROVIDER = "gen_ai.provider.name";
    /// GenAI: the agent at work.
    GEN_AI_AGENT_ID = "gen_ai.agent.id";
    /// GenAI: the same, for people.
    GEN_AI_AGENT_NAME = "gen_ai.agent.name";
    /// GenAI: the conversation.
    GEN_AI_CONVERSATION = "gen_ai.conversation.id";
    /// GenAI: the model, as its provider names it.
    GEN_AI_MODEL = "gen_ai.request.model";
    /// GenAI: why the answer ended, in a list: `stop`, `length`, `content_filter` or `tool_call`.
    GEN_AI_FINISH = "gen_ai.response.finish_reasons";
    /// GenAI: the tokens that the model read, cached ones included.
    GEN_AI_INPUT_TOKENS = "gen_ai.usage.input_tokens";
    /// GenAI: the tokens that the model wrote.
    GEN_AI_OUTPUT_TOKENS = "gen_ai.usage.output_tokens";
    /// GenAI: the tool that was called.
    GEN_AI_TOOL = "gen_ai.tool.name";
    /// GenAI: the id of the call, unique in the task.
    GEN_AI_TOOL_CALL = "gen_ai.tool.call.id";

    /// Messaging: always `agent-mesh`.
    MESSAGING_SYSTEM = "messaging.system";
    /// Messaging: `send` or `process`.
    MESSAGING_OPERATION_TYPE = "messaging.operation.type";
    /// Messaging: the span's word, such as `award`.
    MESSAGING_OPERATION = "messaging.operation.name";
    /// Messaging: the recipient, or `board`.
    MESSAGING_DESTINATION = "messaging.destination.name";
    /// Messaging: the message's id, or the signal's.
    MESSAGING_MESSAGE = "messaging.message.id";
    /// Messaging: the conversation that sent the message or took it.
    MESSAGING_CONVERSATION = "messaging.message.conversation_id";

    /// Langfuse: the session, which is the entry's conversation; where a user's request comes in.
    LANGFUSE_SESSION = "langfuse.session.id";
    /// Langfuse: what the trace is called; where a user's request comes in.
    LANGFUSE_TRACE_NAME = "langfuse.trace.name";
    /// Langfuse: what was asked, if payloads are captured; where a user's request comes in.
    LANGFUSE_TRACE_INPUT = "langfuse.trace.input";
    /// Langfuse: what came of it, if payloads are captured; where a user's request comes in.
    LANGFUSE_TRACE_OUTPUT = "langfuse.trace.output";
    /// Langfuse: `agent` for conversations, `chain` for thoughts, `generation` for calls of models, `tool` for calls of tools, `span` for all else.
    LANGFUSE_TYPE = "langfuse.observation.type";
    /// Langfuse: what went in, if payloads are captured.
    LANGFUSE_INPUT = "langfuse.observation.input";
    /// Langfuse: what came out, if payloads are captured.
    LANGFUSE_OUTPUT = "langfuse.observation.output";
    /// Langfuse: `ERROR` where it failed.
    LANGFUSE_LEVEL = "langfuse.observation.level";
}

/// What we are to the conventions.
pub const SYSTEM: &str = "agent-mesh";
