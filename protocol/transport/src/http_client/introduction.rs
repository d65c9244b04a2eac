//! Tells a process of the mesh the key of the signer, and learns the key of the recipient, where one does not know the other
//! yet: `POST /join`, under the join secret (DESIGN §8).

use super::{ClientRequest, FOREIGN, HttpClient, Signer, now, parse_url, read};
use bytes::Bytes;
use protocol::{
    identity::Introduction,
    ids::{AgentId, Digest},
    principal::{MeshService, Principal},
    problem::{Problem, Reason},
    routes,
    signature::{
        CONTENT_DIGEST, PresentedSignature, SIGNATURE, SIGNATURE_INPUT, SignedResponse, verify_response,
    },
};
use std::sync::Arc;

impl HttpClient {
    /// Tells the recipient of `call` the key of `signer`, and learns its key.
    pub(super) async fn introduce(&self, signer: &Signer, call: &ClientRequest<'_>) -> Result<(), Problem> {
        let Signer { keys, me } = signer;
        let Some(identity) = keys.own(me.as_str()) else {
            return Err(Problem::new(Reason::Internal, format!("this process has no key of {me}")));
        };
        let certificate = keys.own_certificate(me.as_str());
        let history = keys.own_history(me.as_str());
        let introduction =
            Introduction { identity: identity.as_ref().clone(), certificate, callers: None, history };
        let body = serde_json::to_vec(&introduction)
            .map_err(|error| Problem::new(Reason::Internal, error.to_string()))?;
        let mut url = parse_url(call.url)?;
        url.set_path(routes::JOIN);
        url.set_query(None);
        // The answer is signed for this message id, so that no older answer is taken for it.
        let id = uuid::Uuid::new_v4().to_string();
        let join = ClientRequest::post(url.as_str(), call.recipient, Bytes::from(body)).message_id(&id);
        let request = self.request_signed_by(&join, |Signer { keys, me }, parts| {
            Ok(keys.join_secret().sign_request(me, parts, now(), Some(&id)))
        })?;
        let answer = self.check_status(request.timeout(self.limits.answer).send().await).await;
        let is_registry = call.recipient == MeshService::Registry.name();
        let answer = answer.map_err(|problem| {
            if problem.reason == Reason::RouteNotFound {
                let message = format!(
                    "{} is of an earlier version, which knows no keys: update it first",
                    call.recipient
                );
                return self.mismatch(call.recipient, message);
            }
            // A peer may know a later key than this process; the registry decides.
            match problem.reason == Reason::KeyMismatch && !is_registry {
                true => self.mismatch(call.recipient, problem.message),
                false => problem,
            }
        })?;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let body =
            read(answer, self.limits.max_answer_bytes).await.map_err(|problem| self.with_reason(problem))?;
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let presented = PresentedSignature {
            content_digest: header(CONTENT_DIGEST),
            signature_input: header(SIGNATURE_INPUT),
            signature: header(SIGNATURE),
        };
        let parts = SignedResponse { status, message_id: &id, digest: Digest::of(&body) };
        let recipient = AgentId::parse(call.recipient)
            .map_err(|error| Problem::new(Reason::InvalidField, error.to_string()))?;
        verify_response(&recipient, &parts, &presented, now(), |claim| {
            claim.is_signed_by(keys.join_secret())
        })
        .map_err(|problem| problem.with(FOREIGN, true))?;
        let told: Introduction = serde_json::from_slice(&body)
            .map_err(|error| Problem::new(Reason::Internal, format!("the keys of {recipient}: {error}")))?;
        self.learn(signer, &recipient, told)
    }

    /// Takes the key of `recipient`: that of a service is pinned, that of an agent is certified by the registry.
    fn learn(&self, signer: &Signer, recipient: &AgentId, told: Introduction) -> Result<(), Problem> {
        let Introduction { identity, certificate, callers, history } = told;
        if identity.id() != recipient {
            return Err(
                self.mismatch(recipient.as_str(), format!("{} answers for {recipient}", identity.id()))
            );
        }
        let learnt = match (Principal::of_signer(recipient.clone()), certificate) {
            (Principal::Service(MeshService::Registry | MeshService::Board), _) => {
                signer.keys.pin_service(&Arc::new(identity), &history)
            }
            (_, Some(certificate)) if certificate.claimed().is_same(&identity) => {
                signer.keys.learn(&certificate)
            }
            (_, _) => Err(Problem::new(
                Reason::KeyMismatch,
                format!(
                    "{recipient} shows the key {}, which the registry has not certified",
                    identity.fingerprint()
                ),
            )),
        };
        let learnt = learnt.and_then(|()| callers.map_or(Ok(()), |callers| signer.keys.learn(&callers)));
        learnt.map_err(|problem| self.mismatch(recipient.as_str(), problem.message))
    }

    /// A recipient whose key is not the right one counts as unreachable: a person may set it right.
    fn mismatch(&self, recipient: &str, message: String) -> Problem {
        let reason = match recipient {
            "registry" => Reason::RegistryUnavailable,
            "board" => Reason::BlackboardUnavailable,
            _ => Reason::RecipientUnreachable,
        };
        Problem::new(reason, message)
    }
}
