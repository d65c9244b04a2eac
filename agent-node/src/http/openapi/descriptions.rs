//! What each route takes and answers. A schema names the members that are always there and no more: unknown members are
//! tolerated in requests and may be added to answers.

use ::console::views::tasks::state_words;
use protocol::{
    a2a::{push::NOTIFICATION_TOKEN, version::VERSION_PARAMETER},
    message::MessageKind,
};
use serde_json::{Value, json};

mod console;
mod spaces;

/// A media type and a schema.
pub(super) type Content = (&'static str, Value);

/// One method of one path.
pub(super) struct Description {
    pub(super) summary: &'static str,
    pub(super) query: Vec<(&'static str, Value)>,
    pub(super) headers: Vec<(&'static str, Value)>,
    pub(super) body: Option<Content>,
    /// Statuses and their content. Every refusal is the default answer.
    pub(super) answers: Vec<(u16, Option<Content>)>,
}

const JSON: &str = "application/json";
const A2A_JSON: &str = "application/a2a+json";

impl Description {
    fn new(summary: &'static str) -> Self {
        Self { summary, query: Vec::new(), headers: Vec::new(), body: None, answers: Vec::new() }
    }

    /// A JSON body.
    fn takes(self, schema: Value) -> Self {
        Self { body: Some((JSON, schema)), ..self }
    }

    fn query(mut self, name: &'static str, schema: Value) -> Self {
        self.query.push((name, schema));
        self
    }

    /// A JSON object with these members.
    fn answers(self, status: u16, members: &[&str]) -> Self {
        self.with(status, (JSON, object(members)))
    }

    fn with(mut self, status: u16, content: Content) -> Self {
        self.answers.push((status, Some(content)));
        self
    }

    /// No content.
    fn done(mut self) -> Self {
        self.answers.push((204, None));
        self
    }

    /// Server-sent events.
    fn streams(self) -> Self {
        self.with(200, ("text/event-stream", json!({ "type": "string" })))
    }

    /// An operation of A2A's HTTP+JSON binding.
    fn a2a(self, members: &[&str]) -> Self {
        let mut description = self.with(200, (A2A_JSON, object(members)));
        description.headers.push((VERSION_PARAMETER, json!({ "type": "string", "const": "1.0" })));
        description
    }

    fn takes_a2a(self, schema: Value) -> Self {
        Self { body: Some((A2A_JSON, schema)), ..self }
    }
}

/// The description of a route, if there is one.
pub(super) fn describe(method: &str, path: &str) -> Option<Description> {
    if let Some(description) = console::describe(method, path) {
        return Some(description);
    }
    let of = Description::new;
    Some(match (method, path) {
        ("POST", "/a2a/messages") => of("Sends a message to an agent.")
            .takes(envelope())
            .answers(202, &["messageId", "accepted"])
            .answers(200, &[]),
        ("GET", "/a2a/messages/{id}") => {
            of("Shows the state of a message that the caller sent.").query("fromAgentId", id()).answers(200, &[])
        }
        ("GET", "/a2a/messages/{id}/trace") => of("Shows the trace of a message.").answers(200, &[]),
        ("GET", "/a2a/conversations/{id}/trace") => of("Shows the trace of a conversation.").answers(200, &[]),
        ("GET", "/a2a/traces/{trace}/reactions") => {
            of("Lists what agents did because of signals of the caller.").answers(200, &[])
        }
        ("GET", "/a2a/tasks") => of("Lists the tasks that every filter selects, the latest status first.")
            .query("limit", json!({ "type": "integer", "minimum": 1, "maximum": 1000 }))
            .query("state", json!({ "enum": state_words().collect::<Vec<_>>() }))
            .query("capability", id())
            .query("waitingFor", json!({ "type": "string", "description": "`person`, `place`, `agent`, or the id of an agent." }))
            .query("requester", json!({ "type": "string", "description": "A principal such as `user:local`, or `me`." }))
            .query("space", id())
            .query("text", json!({ "type": "string", "description": "A part of the description or of the id." }))
            .query("since", json!({ "type": "string", "format": "date-time" }))
            .query("until", json!({ "type": "string", "format": "date-time" }))
            .query("minCost", json!({ "type": "number" }))
            .query("includeArtifacts", json!({ "type": "boolean" }))
            .answers(200, &["agentId", "tasks"]),
        ("GET", "/a2a/tasks/{id}") => of("Shows a task.").answers(200, &["id", "status"]),
        ("GET", "/a2a/tasks/{id}/events") => of("Follows a task.").streams().done(),
        ("GET", "/a2a/tasks/{id}/session") => {
            of("Shows a session to a person: its stages and seats, whose turn it is, and what was used.")
                .answers(200, &[])
        }
        ("GET", "/a2a/tasks/{id}/award") => of("Shows the result of every candidate.").answers(200, &[]),
        ("GET", "/a2a/tasks/{id}/model") => {
            of("Shows what was said between the agent and its model, to the person of the mesh.")
                .answers(200, &["agentId", "taskId", "lines"])
        }
        ("GET", "/a2a/tasks/{id}/trace") => of("Shows the trace over all agents.").answers(200, &[]),
        ("POST", "/a2a/tasks/{id}/directives") => of("Steers a session.")
            .takes(json!({ "type": "object", "required": ["verb"], "properties": {
                "verb": { "enum": ["say", "amend", "skip", "redirect", "stop"] },
                "stage": { "type": "string" }, "seat": { "type": "string" }, "text": { "type": "string" },
            } }))
            .answers(200, &["id", "outcome"]),
        ("POST", "/a2a/tasks/{id}/cancel") => of("Ends a task.")
            .takes(json!({ "type": "object", "properties": { "reason": { "type": "string" } } }))
            .answers(200, &["id", "status"])
            .answers(202, &[]),
        ("POST", "/a2a/tasks/{id}/retry") => of("Sends a task again, as a new one whose thread names it.")
            .answers(202, &["messageId", "accepted"])
            .answers(200, &[]),
        ("PUT", "/a2a/peer") => of("Registers the process of an agent, with the token of the agent.")
            .takes(json!({ "type": "object", "properties": {
                "endpoint": { "type": "string" }, "description": { "type": "string" }, "skills": { "type": "array" },
                "cost": { "type": "number" }, "eta": {}, "maxParallel": { "type": "integer", "minimum": 1 },
            } }))
            .answers(200, &["card", "heartbeatMs"]),
        ("DELETE", "/a2a/peer") => of("Says goodbye: the process takes no turns until it registers again.").done(),
        ("POST", "/a2a/peer/heartbeat") => of("Says that the process is there.").done(),
        ("GET", "/a2a/peer/turns") => of("Streams the turns of a process without an endpoint.")
            .with(200, ("application/x-ndjson", json!({ "type": "string" }))),
        ("POST", "/a2a/peer/lines") => of("Answers a turn of the stream with lines, each with the key of the turn.")
            .takes(object(&["type", "key"]))
            .done(),
        ("POST", "/a2a/peer/token") => of("Makes the token of an agent's process, for a person.")
            .takes(object(&["agentId"]))
            .answers(200, &["agentId", "token"]),
        ("GET", "/a2a/inbox") => of("Lists the questions that wait for the caller.").answers(200, &["items"]),
        ("GET", "/a2a/spaces/{space}/brief") => of("Shows a brain the present brief of its agent.")
            .answers(200, &["space", "text", "included", "tokens"]),
        ("POST", "/a2a/tasks/{id}/answer") => of("Answers a question of a task.")
            .takes(json!({ "type": "object", "properties": {
                "text": { "type": "string" }, "questionId": { "type": "string" }, "values": { "type": "object" },
                "decision": { "enum": ["approve", "deny"] }, "reason": { "type": "string" },
            } }))
            .answers(200, &["id", "status"])
            .answers(202, &[]),
        ("PUT", "/a2a/artifacts") => Description {
            body: Some(("application/octet-stream", json!({}))),
            ..of("Stores content.").answers(201, &["sha256", "bytes"])
        },
        ("GET", "/a2a/artifacts/{sha256}") => {
            of("Returns content, with the media type that it was stored with.").with(200, ("*/*", json!({})))
        }
        ("GET", "/a2a/costs") => {
            of("What the brain of this port's agent has used for the caller, and how much of the quotas is used.")
                .query("by", json!({ "enum": ["agent", "capability", "requester", "task", "day"] }))
                .query("since", json!({ "type": "string", "format": "date-time" }))
                .answers(200, &["agentId", "since", "costs", "quotas"])
        }
        ("POST", "/board/shares") => of("Takes a share of a quota that agents use together, or gives one back.")
            .takes(object(&["per", "window", "limits", "used"]))
            .answers(200, &["granted", "usedByAll"]),
        ("GET", "/a2a/contexts") => of("Lists the contexts of the caller, the one that was used last first.")
            .query("limit", json!({ "type": "integer", "minimum": 1, "maximum": 1000 }))
            .answers(200, &["agentId", "contexts"]),
        ("GET", "/a2a/contexts/{id}") => of("Shows a context with its turns, as the next turn is given them.")
            .query("tenant", json!({ "type": "string" }))
            .answers(200, &["contextId", "usedAt", "turns"]),
        ("DELETE", "/a2a/contexts/{id}") => {
            of("Forgets a context: the next message in it begins anew.").query("tenant", json!({ "type": "string" })).done()
        }
        ("DELETE", "/a2a/contexts/{id}/handover") => of("Gives a context that was handed over back to the agent of this port.")
            .query("tenant", json!({ "type": "string" }))
            .done(),
        ("GET", "/a2a/schedules") => of("Lists the schedules of the caller at the agent of this port.")
            .answers(200, &["agentId", "schedules"]),
        ("POST", "/a2a/schedules") => of("Adds a schedule, whose tasks have the rights of the caller.")
            .takes(object(&["name", "task"]))
            .answers(201, &["name", "by", "task", "madeAt"]),
        ("GET", "/a2a/schedules/{name}") => of("Shows a schedule: when it is due, what ran last, what was left out.")
            .answers(200, &["name", "by", "task", "madeAt", "skips"]),
        ("DELETE", "/a2a/schedules/{name}") => of("Removes a schedule; its tasks stay.").done(),
        ("POST", "/a2a/schedules/{name}/pause") => of("Pauses a schedule: what is due meanwhile is left out.")
            .takes(object(&[]))
            .answers(200, &["name", "pausedAt"]),
        ("POST", "/a2a/schedules/{name}/resume") => of("Lets a paused schedule go on.")
            .takes(object(&[]))
            .answers(200, &["name"]),
        ("POST", "/a2a/schedules/{name}/run") => of("Begins a task of a schedule now.")
            .takes(object(&[]))
            .answers(202, &["name", "taskId"]),
        ("POST", "/a2a/triggers/{name}") => Description {
            headers: vec![
                ("x-hub-signature-256", json!({ "type": "string" })),
                ("stripe-signature", json!({ "type": "string" })),
                ("idempotency-key", json!({ "type": "string" })),
            ],
            ..of("Takes a delivery of another system, which begins a task; its secret or signature is checked.")
                .takes(json!({}))
                .answers(200, &[])
                .answers(202, &["accepted", "taskId"])
        },
        ("GET", "/a2a/dead-letters") => of("Lists messages that were given up, oldest first.")
            .query("limit", json!({ "type": "integer", "minimum": 1, "maximum": 1000 }))
            .query("after", json!({ "type": "string" }))
            .answers(200, &["deadLetters"]),
        ("GET", "/a2a/dead-letters/{id}") => of("Shows a message that was given up.").answers(200, &["messageId"]),
        ("POST", "/a2a/dead-letters/{id}/redrive") => {
            of("Sends a message that was given up once more.").answers(200, &[]).answers(202, &[])
        }
        ("GET", "/a2a/logins") => of("The agent's tool servers that take a login, and the caller's logins that wait.")
            .answers(200, &["servers", "logins"]),
        ("POST", "/a2a/logins") => of("Begins a login at a tool server; `url` is the page for the person.")
            .takes(object(&["server"]))
            .answers(200, &["whose"])
            .answers(201, &["id", "url", "redirect", "whose"]),
        ("POST", "/a2a/logins/finish") => of("Ends a login with the address to which the browser was sent back.")
            .takes(object(&["url"]))
            .answers(200, &["agent", "server", "whose"]),
        ("POST", "/a2a/logins/forget") => of("Forgets a login.")
            .takes(object(&["server"]))
            .answers(200, &["wasLoggedIn"]),
        ("GET", "/a2a/logins/callback") => of("Where the browser of a login comes back to.")
            .query("state", json!({ "type": "string" }))
            .query("code", json!({ "type": "string" }))
            .with(200, ("text/plain", json!({ "type": "string" }))),
        ("GET", "/a2a/tools") => of("What the agent's brain can call, and the state of its tool servers, for the person's token.")
            .answers(200, &["agentId", "servers", "builtIn"]),
        ("POST", "/a2a/hooks/{id}") => Description {
            headers: vec![(NOTIFICATION_TOKEN, json!({ "type": "string" }))],
            ..of("Takes a push notification of a foreign agent.").takes_a2a(object(&[])).done()
        },
        ("GET", "/a2a/card") => of("Returns the card of the agent of this port.").answers(200, &["agentId", "endpoint"]),
        ("GET", "/.well-known/agent-card.json") => of("Returns the A2A card.").answers(200, &["name", "skills"]),
        ("GET", "/.well-known/jwks.json") => of("Returns the keys that cards are signed with.").answers(200, &["keys"]),
        ("GET", "/.well-known/ai-catalog.json") => {
            of("Lists the cards of all agents.").with(200, ("application/ai-catalog+json", object(&[])))
        }
        ("POST", "/mcp") => of("Takes a message of MCP; the tools of the mesh.")
            .takes(json!({ "type": "object", "required": ["jsonrpc"], "properties": { "jsonrpc": { "const": "2.0" } } }))
            // JSON, or server-sent events.
            .with(200, ("*/*", json!({})))
            .answers(202, &[]),
        ("GET", "/mcp") => of("Follows the messages of an MCP session.").streams(),
        ("DELETE", "/mcp") => of("Ends an MCP session.").done(),
        ("GET", "/openapi.json") => of("Returns this document.").answers(200, &["openapi", "paths"]),
        ("GET", "/healthz") => of("Answers while the process lives.").answers(200, &["status"]),
        ("GET", "/readyz") => {
            of("Runs the checks.").answers(200, &["ready", "checks"]).answers(503, &["ready", "checks"])
        }
        ("GET", "/services") => of("Returns the addresses of the registry and the board.").answers(200, &[]),
        ("GET", "/metrics") => {
            let media_type = "application/openmetrics-text";
            of("Returns counters, for Prometheus.").with(200, (media_type, json!({ "type": "string" })))
        }
        ("GET", "/state") => of("Returns the limits and the state of every actor.").answers(200, &["version", "limits"]),
        ("POST", "/a2a/rpc") => of("Performs an operation of A2A's JSON-RPC binding.")
            .takes(json!({
                "type": "object",
                "required": ["jsonrpc", "id", "method"],
                "properties": {
                    "jsonrpc": { "const": "2.0" },
                    "id": { "type": ["string", "integer"] },
                    "method": { "enum": operations() },
                    "params": { "type": "object" },
                },
            }))
            .answers(200, &["jsonrpc"]),
        ("GET", "/registry/agents") => of("Finds agents.")
            .query("capability", json!({ "type": "array", "items": id() }))
            .query("match", json!({ "enum": ["any", "all"] }))
            .query("prefer", json!({ "enum": ["none", "least-loaded", "cheapest"] }))
            .query("includeDead", json!({ "type": "boolean" }))
            .answers(200, &["agents"]),
        ("POST", "/registry/agents") => of("Registers the agent that signs the request.")
            .takes(json!({
                "type": "object",
                "required": ["card", "instance"],
                "properties": { "card": { "type": "object" }, "instance": { "type": "string" } },
            }))
            .answers(201, &[]),
        ("GET", "/registry/agents/{id}") => of("Shows an agent.").answers(200, &["card"]),
        ("DELETE", "/registry/agents/{id}") => of("Removes the agent that signs the request.")
            .query("incarnation", json!({ "type": "integer", "minimum": 0 }))
            .query("reason", json!({ "type": "string" }))
            .done(),
        ("PUT", "/registry/agents/{id}/heartbeat") => {
            of("Renews the lease of the agent that signs the request.").takes(object(&["incarnation"])).done()
        }
        ("POST", "/registry/agents/{id}/suspicion") => of("Reports that an agent does not answer.")
            .takes(json!({
                "type": "object",
                "required": ["incarnation"],
                "properties": { "incarnation": { "type": "integer", "minimum": 0 } },
            }))
            .done(),
        ("GET", "/registry/keys") => of("Lists the pinned keys.").answers(200, &["keys"]),
        ("POST", "/registry/keys/{id}/change") => of("Replaces the key of the agent that signs the request.")
            .takes(object(&["to", "signature"]))
            .answers(200, &["identity", "number", "signature"]),
        ("POST", "/registry/keys/{id}/reset") => of("Gives up the key of an id, for the person's token.").answers(200, &["id"]),
        ("POST", "/registry/agents/{id}/forget") => of("Forgets an agent that is not there, for the person's token.").answers(200, &["id"]),
        ("POST", "/keys/{id}/rotate") => of("Replaces the key of an agent or a service of this process, for the person's token.").answers(200, &["id"]),
        ("POST", "/join") => of("Tells the caller's key and returns the recipient's, under the join secret.")
            .takes(object(&["identity"]))
            .answers(200, &["identity"]),
        ("GET", "/registry/key-records") => of("Returns what the registry says about keys, in the order of the last change.")
            .query("life", json!({ "type": "string" }))
            .query("revision", json!({ "type": "integer", "minimum": 0 }))
            .answers(200, &["registry", "records", "cursor", "hasMore"]),
        ("GET", "/registry/watch") => of("Follows the changes among agents.").streams(),
        ("GET", "/registry/token") => of("Returns the public key of the person's token.").answers(200, &["publicKey"]),
        ("GET", "/board/signals") => signal_query(of("Reads signals.")).query("until", json!({ "type": "integer", "minimum": 0 })).query("limit", json!({ "type": "integer", "minimum": 0 })).answers(200, &["signals"]),
        ("POST", "/board/signals") => of("Publishes a signal, or an array of signals in order.")
            .takes(json!({ "anyOf": [signal(), { "type": "array", "items": signal(), "minItems": 1, "maxItems": 64 }] }))
            .answers(201, &["revision", "id"])
            .with(200, (JSON, json!({ "type": "array", "items": object(&["status"]) }))),
        ("GET", "/board/signals/stream") => signal_query(of("Follows signals.")).streams(),
        ("GET", "/board/claims/{task}") => claim(of("Shows the claim on an open task.")),
        ("POST", "/board/claims/{task}") => claim(of("Claims an open task.").takes(json!({
            "type": "object",
            "required": ["leaseMs"],
            "properties": { "leaseMs": { "type": "integer", "minimum": 0 }, "holder": id() },
        }))),
        ("POST", "/board/claims/{task}/renew") => claim(of("Renews a claim.").takes(epoch())),
        ("POST", "/board/claims/{task}/release") => claim(of("Gives a claim back.").takes(epoch())),
        ("POST", "/board/claims/{task}/complete") => claim(of("Ends a claim with a result.").takes(epoch())),
        ("POST", "/board/claims/{task}/fail") => claim(of("Ends a claim without a result.").takes(epoch())),
        ("PUT", "/board/token") => of("Takes the public key of the person's token.")
            .takes(json!({
                "type": "object",
                "required": ["publicKey"],
                "properties": { "publicKey": { "type": "string", "pattern": "^[A-Za-z0-9_-]{43}$" } },
            }))
            .done(),
        ("PUT", "/board/key-records") => of("Takes what the registry says about keys.")
            .takes(object(&["registry", "records", "cursor", "hasMore"]))
            .answers(200, &["cursor"]),
        (_, path) if path.starts_with("/board/spaces") => return spaces::describe(method, path),
        (_, path) => return describe_a2a(method, path.strip_prefix(protocol::routes::A2A_REST)?),
    })
}

/// The operations of A2A's HTTP+JSON binding.
fn describe_a2a(method: &str, path: &str) -> Option<Description> {
    let of = Description::new;
    Some(match (method, path) {
        ("POST", "/message:send") => of("SendMessage").takes_a2a(send()).a2a(&[]),
        ("POST", "/message:stream") => {
            let mut stream = of("SendStreamingMessage").takes_a2a(send()).a2a(&[]);
            stream.answers.clear();
            stream.streams()
        }
        ("GET", "/tasks") => of("ListTasks")
            .query("pageSize", json!({ "type": "integer", "minimum": 1, "maximum": 100 }))
            .query("contextId", json!({ "type": "string" }))
            .a2a(&["tasks"]),
        ("GET", "/tasks/{id}") => of("GetTask")
            .query("historyLength", json!({ "type": "integer", "minimum": 0 }))
            .a2a(&["id", "status"]),
        ("POST", "/tasks/{id}:cancel") => of("CancelTask").takes_a2a(object(&[])).a2a(&["id", "status"]),
        ("GET", "/tasks/{id}:subscribe") => {
            let mut stream = of("SubscribeToTask").a2a(&[]);
            stream.answers.clear();
            stream.streams()
        }
        ("POST", "/tasks/{taskId}/pushNotificationConfigs") => of("CreateTaskPushNotificationConfig")
            .takes_a2a(json!({
                "type": "object",
                "required": ["url"],
                "properties": { "url": { "type": "string" }, "token": { "type": "string" } },
            }))
            .a2a(&["url"]),
        ("GET", "/tasks/{taskId}/pushNotificationConfigs") => {
            of("ListTaskPushNotificationConfigs").a2a(&["configs"])
        }
        ("GET", "/tasks/{taskId}/pushNotificationConfigs/{id}") => {
            of("GetTaskPushNotificationConfig").a2a(&["url"])
        }
        ("DELETE", "/tasks/{taskId}/pushNotificationConfigs/{id}") => {
            of("DeleteTaskPushNotificationConfig").a2a(&[])
        }
        ("GET", "/extendedAgentCard") => of("GetExtendedAgentCard").a2a(&["name"]),
        _ => return None,
    })
}

/// The schema of a refusal (DESIGN §4). Answers of A2A's bindings have no `reasonCode`.
pub(super) fn refusal() -> Value {
    json!({
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["code", "message"],
                "properties": { "code": { "type": "integer" }, "message": { "type": "string" } },
            },
            "reasonCode": { "type": "string" },
        },
    })
}

/// The schema of a path's parameter.
pub(super) fn path_parameter(name: &str) -> Value {
    match name {
        "sha256" => json!({ "type": "string", "pattern": "^[0-9a-f]{64}$" }),
        "trace" => json!({ "type": "string", "pattern": "^[0-9a-f]{32}$" }),
        "entry" => json!({ "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._:-]{0,191}$" }),
        _ => id(),
    }
}

fn object(required: &[&str]) -> Value {
    json!({ "type": "object", "required": required })
}

fn id() -> Value {
    json!({ "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" })
}

fn operations() -> Vec<&'static str> {
    protocol::a2a::request::A2aOperation::ALL.iter().map(|operation| operation.name()).collect()
}

fn envelope() -> Value {
    let kinds: Vec<_> = MessageKind::ALL.iter().map(|kind| kind.wire()).collect();
    json!({
        "type": "object",
        "required": ["fromAgentId", "toAgentId", "type", "payload"],
        "properties": {
            "messageId": id(),
            "fromAgentId": id(),
            "toAgentId": { "type": "string", "pattern": "^(capability:)?[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" },
            "type": { "enum": kinds },
            "payload": { "type": ["object", "string"] },
        },
    })
}

fn send() -> Value {
    json!({
        "type": "object",
        "required": ["message"],
        "properties": {
            "message": {
                "type": "object",
                "required": ["messageId", "role", "parts"],
                "properties": {
                    "messageId": { "type": "string", "minLength": 1 },
                    "role": { "enum": ["ROLE_USER"] },
                    "parts": {
                        "type": "array",
                        "minItems": 1,
                        "items": { "type": "object", "properties": { "text": { "type": "string" } } },
                    },
                },
            },
        },
    })
}

fn signal() -> Value {
    json!({
        "type": "object",
        "required": ["type"],
        "properties": { "type": { "type": "string" }, "taskId": id(), "refs": { "type": "object" } },
    })
}

fn signal_query(description: Description) -> Description {
    let list = || json!({ "type": "array", "items": { "type": "string" } });
    description
        .query("type", list())
        .query("capability", list())
        .query("taskId", id())
        .query("after", json!({ "type": "string" }))
}

fn epoch() -> Value {
    json!({
        "type": "object",
        "required": ["epoch"],
        "properties": { "epoch": { "type": "integer", "minimum": 0 } },
    })
}

fn claim(description: Description) -> Description {
    description.query("publisher", json!({ "type": "string" })).answers(200, &["epoch"])
}
