//! The limits of A2A that no configuration changes: each defined once, declared in the card and at `/state` under
//! `a2aLimits`, beside those a node configures ([`crate::limits::Limits`]).

use super::card_validation::{MAX_CARD_BYTES, MAX_SKILLS};
use crate::{limits::Limits, task::MAX_HISTORY};
use serde_json::{Map, Value, json};

macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident = $value:expr;)*) => {
        $($(#[$doc])* pub const $name: usize = $value;)*
    };
}

limits! {
    /// Webhooks one task may have; one more is refused. A page holds them all, unless fewer are asked for.
    MAX_WEBHOOKS = 32;
    /// A webhook's id, characters.
    MAX_WEBHOOK_ID = 128;
    /// Attempts to tell a webhook of one event.
    WEBHOOK_ATTEMPTS = 8;
    /// How long one of them may take, milliseconds.
    WEBHOOK_ATTEMPT_MS = 15_000;
    /// Events in a row that could not be delivered, after which a webhook is given up.
    MAX_WEBHOOK_MISSED = 3;
    /// A context's name, characters.
    MAX_CONTEXT = 256;
    /// A tenant's name, characters.
    MAX_TENANT = 128;
    /// Tasks that a message may refer to.
    MAX_REFERENCES = 16;
    /// Tasks on a page, at most.
    MAX_PAGE = 100;
    /// Tasks on a page by default.
    PAGE = 50;
    /// Calls at once on a gRPC connection, its streams among them.
    MAX_GRPC_CALLS = 1_024;
    /// The metadata of a gRPC call, bytes.
    MAX_GRPC_HEAD = 16 * 1024;
    /// The files of results that an answer has whole, bytes in all; a file beyond that is a URL.
    MAX_RAW_RESULT = 1 << 20;
    /// A foreign agent's answer, bytes.
    MAX_FOREIGN_ANSWER = 4 << 20;
    /// A foreign agent's stream, bytes in all.
    MAX_FOREIGN_STREAM = 64 << 20;
    /// Artifacts of one foreign task.
    MAX_FOREIGN_ARTIFACTS = 1_000;
    /// Parts of a coordinated request.
    MAX_PARTS = 24;
    /// Cards, or hosts, that a coordinated request may name.
    MAX_CARDS = 32;
    /// Characters of a coordinated request.
    MAX_COORDINATED_CHARS = 4_000;
    /// Characters of one part of a result that a coordinator takes.
    MAX_PART_CHARS = 5_000;
    /// Artifacts of a result that a coordinator takes, and parts of one artifact.
    MAX_COORDINATED_ARTIFACTS = 64;
}

/// What the artifacts of one foreign task may hold, bytes. They go on to the task's owner in one message, which is bounded
/// too, so some of that is left for the rest of it.
pub fn foreign_task_bytes(limits: &Limits) -> usize {
    limits.max_artifact_bytes / 16 * 15
}

/// Every one of them, as it is declared.
pub fn declared(limits: &Limits) -> Map<String, Value> {
    let all = [
        ("maxWebhooksPerTask", MAX_WEBHOOKS),
        ("maxWebhookIdChars", MAX_WEBHOOK_ID),
        ("webhookAttempts", WEBHOOK_ATTEMPTS),
        ("webhookAttemptMs", WEBHOOK_ATTEMPT_MS),
        ("maxWebhookMissedEvents", MAX_WEBHOOK_MISSED),
        ("maxContextIdChars", MAX_CONTEXT),
        ("maxTenantChars", MAX_TENANT),
        ("maxReferenceTasks", MAX_REFERENCES),
        ("maxTasksPerPage", MAX_PAGE),
        ("tasksPerPage", PAGE),
        ("maxHistoryMessages", MAX_HISTORY),
        ("maxGrpcCallsPerConnection", MAX_GRPC_CALLS),
        ("maxGrpcHeadBytes", MAX_GRPC_HEAD),
        ("maxRawResultBytes", MAX_RAW_RESULT),
        ("maxForeignAnswerBytes", MAX_FOREIGN_ANSWER),
        ("maxForeignStreamBytes", MAX_FOREIGN_STREAM),
        ("maxForeignTaskBytes", foreign_task_bytes(limits)),
        ("maxForeignArtifacts", MAX_FOREIGN_ARTIFACTS),
        ("maxForeignCardBytes", MAX_CARD_BYTES),
        ("maxForeignCardSkills", MAX_SKILLS),
        ("maxCoordinatedChars", MAX_COORDINATED_CHARS),
        ("maxCoordinatedParts", MAX_PARTS),
        ("maxCoordinatedCards", MAX_CARDS),
        ("maxCoordinatedPartChars", MAX_PART_CHARS),
        ("maxCoordinatedArtifacts", MAX_COORDINATED_ARTIFACTS),
    ];
    all.into_iter().map(|(name, limit)| (name.to_owned(), json!(limit))).collect()
}
