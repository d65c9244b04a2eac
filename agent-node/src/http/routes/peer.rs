//! `/a2a/peer`: the process of an agent registers here with the token of the agent, says that it is there, and takes turns from a
//! stream.

use super::keys::check_person;
use crate::{
    brain::{
        json_lines::{self, BrainLine},
        peer::process::{NoStream, NoSuchTurn, TurnStream, Unregistered},
    },
    config::PeerRegistration,
    http::{hosted_peer::HostedPeer, node_state::NodeState},
    token_format::{PEER_PREFIX, random_token},
};
use actix_web::{HttpRequest, HttpResponse, http::header, web};
use bytes::Bytes;
use protocol::{
    ids::{AgentId, Digest},
    principal::Principal,
    problem::{Problem, Reason},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::{convert::Infallible, sync::Arc, time::Instant};
use transport::refusal::Refusal;

/// The peer whose own process sends a request.
fn own_peer<'a>(node: &'a NodeState, by: &Principal) -> Result<&'a Arc<HostedPeer>, Problem> {
    let Principal::Brain(agent) = by else {
        let message = "this is for the process of an agent, with its token (`mesh token agent ID`)";
        return Err(Problem::new(Reason::Forbidden, message));
    };
    node.agent(agent)?.peer.as_ref().ok_or_else(|| no_peer(agent))
}

fn no_peer(agent: &AgentId) -> Problem {
    let message =
        format!("{agent} has no process of its own: its file does not say `brain: {{ peer: {{}} }}`");
    Problem::new(Reason::Forbidden, message)
}

fn unregistered(_: Unregistered) -> Problem {
    Problem::new(Reason::PeerNotRegistered, "register first: PUT /a2a/peer")
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TokenBody {
    agent_id: AgentId,
}

/// Makes the token of an agent's process, for a person. The one before is void, and its process has to register again.
pub async fn token(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    body: web::Bytes,
) -> Result<HttpResponse, Refusal> {
    check_person(&request, &by)?;
    let invalid = |error: serde_json::Error| Problem::new(Reason::InvalidField, error.to_string());
    let body = protocol::json::parse(&body, node.limits.max_depth)?;
    let TokenBody { agent_id } = serde_json::from_value(body).map_err(invalid)?;
    let peer = node.agent(&agent_id)?.peer.as_ref().ok_or_else(|| no_peer(&agent_id))?;
    let token = random_token(PEER_PREFIX);
    let digest = Digest::of(token.as_bytes());
    let _one_at_a_time = node.rotation.lock().await;
    node.key_files
        .write_peer_token(&agent_id, &digest)
        .map_err(|error| Problem::new(Reason::Internal, format!("the token can't be kept: {error:#}")))?;
    node.tokens.set_peer(digest, agent_id.clone());
    peer.leave("its peer has a new token and has not registered with it yet").await;
    Ok(HttpResponse::Ok().json(json!({ "agentId": agent_id, "token": token })))
}

/// Registers the process; answers with the card and the interval of heartbeats.
pub async fn register(
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    body: web::Bytes,
) -> Result<HttpResponse, Refusal> {
    let peer = own_peer(&node, &by)?;
    let body = match body.is_empty() {
        true => Map::new(),
        false => protocol::json::parse_object(&body, node.limits.max_depth)?,
    };
    let card = peer.register(PeerRegistration::read(Value::Object(body))?).await?;
    let heartbeat = peer.process().heartbeat_interval().as_millis();
    let heartbeat = u64::try_from(heartbeat).unwrap_or(u64::MAX);
    Ok(HttpResponse::Ok().json(json!({ "card": card.as_ref(), "heartbeatMs": heartbeat })))
}

/// The process is there.
pub async fn heartbeat(
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
) -> Result<HttpResponse, Refusal> {
    own_peer(&node, &by)?.process().hear(Instant::now()).map_err(unregistered)?;
    Ok(HttpResponse::NoContent().finish())
}

/// The process leaves. What it has under way waits until it is back.
pub async fn leave(node: web::Data<NodeState>, by: web::ReqData<Principal>) -> Result<HttpResponse, Refusal> {
    own_peer(&node, &by)?.leave("its peer has said goodbye").await;
    Ok(HttpResponse::NoContent().finish())
}

/// Streams the prompts of the turns, those that are open first: server-sent events if they are asked for, else a line of JSON each.
pub async fn turns(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
) -> Result<HttpResponse, Refusal> {
    let process = own_peer(&node, &by)?.process();
    let stream = process.open_stream().map_err(|why| match why {
        NoStream::Unregistered => unregistered(Unregistered),
        NoStream::HasEndpoint => {
            let message = "it takes its turns at its endpoint; PUT /a2a/peer without `endpoint` changes that";
            Problem::new(Reason::PeerNotRegistered, message)
        }
    })?;
    let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let as_events = accept.is_some_and(|accept| accept.contains("text/event-stream"));
    let (alive, media_type) = match as_events {
        true => (": alive\n\n", "text/event-stream"),
        false => ("\n", "application/x-ndjson"),
    };
    let interval = process.heartbeat_interval();
    let drain = Box::pin(node.drain.started());
    let body = futures_util::stream::unfold((stream, drain), move |(mut stream, mut drain)| async move {
        let bytes = tokio::select! {
            () = &mut drain => return None,
            prompt = next_prompt(&mut stream, as_events) => prompt?,
            // Shows whether the process still reads.
            () = tokio::time::sleep(interval) => Bytes::from_static(alive.as_bytes()),
        };
        Some((Ok::<_, Infallible>(bytes), (stream, drain)))
    });
    Ok(HttpResponse::Ok()
        .content_type(media_type)
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .streaming(body))
}

async fn next_prompt(stream: &mut TurnStream, as_events: bool) -> Option<Bytes> {
    let line = stream.next().await?;
    Some(if as_events { [b"data: ", &line[..], b"\n"].concat().into() } else { line.into() })
}

/// Takes lines of turns, each with the `key` of its turn; answers when the turns have taken them all, checkpoints when they are
/// durable. If one is invalid or of no open turn, it takes none.
pub async fn lines(
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    body: web::Bytes,
) -> Result<HttpResponse, Refusal> {
    let process = own_peer(&node, &by)?.process();
    let lines = parsed(&body)?;
    let no_turn = |key: &str| {
        let message = format!("no turn {key} is open: it has ended, or it begins again under another key");
        Problem::new(Reason::TurnNotFound, message).with("key", key)
    };
    if let Some((key, _)) = lines.iter().find(|(key, _)| !process.has_turn(key)) {
        return Err(no_turn(key).into());
    }
    process.hear(Instant::now()).map_err(unregistered)?;
    for (key, line) in lines {
        process.send_line(&key, line).await.map_err(|NoSuchTurn| no_turn(&key))?;
    }
    Ok(HttpResponse::NoContent().finish())
}

/// The lines of a body: one JSON object, which may have line feeds, or an object a line.
fn parsed(body: &[u8]) -> Result<Vec<(String, BrainLine)>, Problem> {
    let is_one = serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok();
    let texts: Vec<_> = match is_one {
        true => vec![body],
        false => body.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).collect(),
    };
    let line = |(at, text): (usize, &[u8])| {
        let refused = |why: String| Problem::new(Reason::InvalidField, format!("line {}: {why}", at + 1));
        match json_lines::parse_with_key(text).map_err(refused)? {
            (_, BrainLine::Bid(_)) => {
                Err(refused("a turn has no bid: those of a peer are computed".to_owned()))
            }
            line => Ok(line),
        }
    };
    if texts.is_empty() {
        return Err(Problem::new(Reason::InvalidField, "a line is needed"));
    }
    let lines: Vec<_> = texts.into_iter().enumerate().map(line).collect::<Result<_, _>>()?;
    let after_end = |(at, (key, _)): (usize, &(String, BrainLine))| {
        let is_end = |(of, line): &(String, BrainLine)| of == key && matches!(line, BrainLine::End(_));
        lines.iter().take(at).any(is_end).then_some(at + 1)
    };
    match lines.iter().enumerate().find_map(after_end) {
        Some(at) => {
            Err(Problem::new(Reason::InvalidField, format!("line {at}: comes after the end of its turn")))
        }
        None => Ok(lines),
    }
}

#[cfg(test)]
mod tests {
    use super::parsed;

    #[test]
    fn a_body_is_one_object_or_one_a_line_and_each_names_its_turn() {
        let keys = |body: &str| {
            let lines = parsed(body.as_bytes()).map_err(|problem| problem.message)?;
            Ok::<_, String>(lines.into_iter().map(|(key, _)| key).collect::<Vec<_>>())
        };
        assert_eq!(keys("{\"type\":\"wait\",\n\"key\":\"a\"}").unwrap(), ["a"]);
        let two =
            "{\"type\":\"status\",\"message\":\"m\",\"key\":\"a\"}\n\n{\"type\":\"wait\",\"key\":\"b\"}\n";
        assert_eq!(keys(two).unwrap(), ["a", "b"]);
        for (body, why) in [
            ("", "a line is needed"),
            ("{\"type\":\"wait\"}", "line 1: \"key\" is needed"),
            ("{\"type\":\"wait\",\"key\":\"a\"}\n{\"type\":\"shout\",\"key\":\"a\"}", "line 2: unknown type"),
            ("{\"type\":\"no-bid\",\"reason\":\"r\",\"key\":\"a\"}", "line 1: a turn has no bid"),
        ] {
            let problem = keys(body).unwrap_err();
            assert!(problem.starts_with(why), "{body}: {problem}");
        }
    }
}
