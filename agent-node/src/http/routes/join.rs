//! `POST /join`: a process of the mesh tells its key and gets that of the recipient (DESIGN §8). The edge has checked that the
//! request is signed with the join secret, which admits and proves nobody's name.

use crate::http::node_state::NodeState;
use actix_web::{HttpRequest, HttpResponse, web};
use protocol::{
    identity::{Introduction, KeyCertificate},
    ids::{AgentId, Digest},
    json,
    problem::{Problem, Reason},
    signature::{MESSAGE_ID, RECIPIENT, SignedResponse},
};
use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};
use transport::refusal::Refusal;

/// Takes the key of the caller, if the recipient may believe it, and answers with the recipient's.
///
/// The registry pins the key of an id that it knows no key of, and certifies it. The board takes the registry's key at the first contact. Any
/// other key needs the registry's certificate.
pub async fn post(
    request: HttpRequest,
    node: web::Data<NodeState>,
    body: web::Bytes,
) -> Result<HttpResponse, Refusal> {
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let recipient = header(RECIPIENT).unwrap_or_default();
    let recipient = AgentId::parse(recipient).map_err(|error| invalid(error.to_string()))?;
    let message_id = header(MESSAGE_ID).ok_or_else(|| invalid("Mesh-Message-Id: missing".to_owned()))?;
    let Some(own) = node.keys.own(recipient.as_str()) else {
        return Err(Problem::new(Reason::Unauthenticated, format!("{recipient} is not here")).into());
    };
    let introduction = json::parse(&body, json::MAX_DEPTH)?;
    let introduction: Introduction =
        serde_json::from_value(introduction).map_err(|error| invalid(error.to_string()))?;
    let callers = take(&node, &recipient, introduction).await?;
    let certificate = node.keys.own_certificate(recipient.as_str());
    let history = node.keys.own_history(recipient.as_str());
    let answer = Introduction { identity: own.as_ref().clone(), certificate, callers, history };
    let answer = serde_json::to_vec(&answer)
        .map_err(|error| Problem::new(Reason::Internal, format!("the keys can't be written: {error}")))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let parts = SignedResponse { status: 200, message_id, digest: Digest::of(&answer) };
    let mut response = HttpResponse::Ok();
    for header in node.keys.join_secret().sign_response(&recipient, &parts, now).into_pairs() {
        response.insert_header(header);
    }
    Ok(response.content_type("application/json").body(answer))
}

/// Returns the certificate of the caller if the registry has made one.
async fn take(
    node: &NodeState,
    recipient: &AgentId,
    introduction: Introduction,
) -> Result<Option<KeyCertificate>, Problem> {
    let Introduction { identity, certificate, history, .. } = introduction;
    let (id, identity) = (identity.id().clone(), Arc::new(identity));
    let (is_registry, is_board) = (recipient.as_str() == "registry", recipient.as_str() == "board");
    if let Some(own) = node.keys.own(id.as_str()) {
        return match own.is_same(&identity) {
            true => Ok(node.keys.own_certificate(id.as_str()).filter(|_| is_registry)),
            false => {
                Err(mismatch(format!("{id} is an agent or a service of this process, with another key")))
            }
        };
    }
    if is_board && id.as_str() == "registry" {
        node.keys.pin_service(&identity, &history)?;
        return Ok(None);
    }
    if id.is_reserved() {
        return Err(mismatch(format!("{id} is a service's name, and no service calls here")));
    }
    if is_registry {
        let registry = node.registry.as_ref();
        let registry = registry.ok_or_else(|| Problem::new(Reason::RegistryUnavailable, "it is not here"))?;
        return registry.admit_key(identity).await.map(Some);
    }
    match certificate {
        Some(certificate) if certificate.claimed().is_same(&identity) => {
            node.keys.learn(&certificate).map(|()| None)
        }
        Some(_) => Err(mismatch(format!("the certificate is not of the key of {id}"))),
        None => {
            let message = format!("{id} has no certificate yet: the registry makes it at its first contact");
            Err(Problem::new(Reason::RegistryUnavailable, message))
        }
    }
}

fn mismatch(message: String) -> Problem {
    Problem::new(Reason::KeyMismatch, message)
}

fn invalid(message: String) -> Problem {
    Problem::new(Reason::InvalidField, message)
}
