//! The keys that a process knows: its own, those of others, and the keys it shares with each (DESIGN §8). Signs and checks the
//! requests and responses between agents and services.

mod own_identity;
mod service_pins;
#[cfg(test)]
pub(crate) mod tests;

use dashmap::DashMap;
use own_identity::OwnIdentity;
use protocol::{
    a2a::card_signature::SigningKey,
    identity::{IdentityKey, KeyCertificate, KeyChange, KeyHistory, PublicIdentity},
    ids::AgentId,
    principal::{MeshService, Principal},
    problem::{Problem, Reason},
    routes,
    signature::{
        PresentedSignature, Secret, SignatureClaim, SignatureHeaders, SignedParts, SignedResponse,
        verify_request, verify_response,
    },
};
use service_pins::ServicePins;
use std::{
    fmt,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

/// How long a key that was replaced is still good, for what is under way: as long as a signature is.
const GRACE: Duration = Duration::from_secs(300);

/// The keys of a process. Cheap to clone; every clone shares them.
#[derive(Clone)]
pub struct KeyRing(Arc<RingState>);

struct RingState {
    join: Secret,
    own: DashMap<String, Arc<OwnIdentity>>,
    known: DashMap<String, KnownIdentity>,
    /// The number of the last certificate of each id whose key the registry has given up.
    revoked: DashMap<String, u64>,
    services: ServicePins,
}

/// The key of another agent or service.
struct KnownIdentity {
    identity: Arc<PublicIdentity>,
    /// The number of its certificate; 0 for a service, which has none.
    number: u64,
    previous: Option<(Arc<PublicIdentity>, Instant)>,
}

impl KeyRing {
    /// A ring without keys. `join` is the join secret. The keys of the registry and the board in other processes are pinned in
    /// files in `pins`, or for as long as the process lasts.
    pub fn new(join: Secret, pins: Option<PathBuf>) -> Self {
        let services = ServicePins::new(pins);
        Self(Arc::new(RingState {
            join,
            own: DashMap::new(),
            known: DashMap::new(),
            revoked: DashMap::new(),
            services,
        }))
    }

    /// The join secret.
    pub fn join_secret(&self) -> &Secret {
        &self.0.join
    }

    /// Signs as `key` from now on. A key that it replaces still checks what is under way.
    pub fn set_own(&self, key: IdentityKey) {
        self.set_own_service(key, KeyHistory::default());
    }

    /// The same for a service, with the history of its keys, which ends with `key` or is empty.
    pub fn set_own_service(&self, key: IdentityKey, history: KeyHistory) {
        let id = key.public().id().to_string();
        let previous = self.0.own.get(&id).map(|own| own.clone());
        self.0.own.insert(id, Arc::new(OwnIdentity::new(key, history, previous)));
    }

    /// How the keys that this process has had under `id` replaced each other; empty for an agent.
    pub fn own_history(&self, id: &str) -> KeyHistory {
        self.0.own.get(id).map(|own| own.history().clone()).unwrap_or_default()
    }

    /// The identity that this process has under `id`.
    pub fn own(&self, id: &str) -> Option<Arc<PublicIdentity>> {
        self.0.own.get(id).map(|own| own.secret().public().clone())
    }

    /// The Ed25519 key that this process has under `id`.
    pub fn own_signing_key(&self, id: &str) -> Option<Arc<SigningKey>> {
        self.0.own.get(id).map(|own| own.secret().signing().clone())
    }

    /// The certificate of the registry for the identity that this process has under `id`.
    pub fn own_certificate(&self, id: &str) -> Option<KeyCertificate> {
        self.0.own.get(id).and_then(|own| own.certificate())
    }

    /// The certificate that the registry of this process makes. `None` if the registry is in another process.
    pub fn certify(&self, identity: &PublicIdentity, number: u64) -> Option<KeyCertificate> {
        let registry = self.0.own.get(MeshService::Registry.name())?;
        Some(KeyCertificate::new(registry.secret(), identity, number))
    }

    /// The statement of the key that this process has under `id`, that `to` replaces it.
    pub fn change_of(&self, id: &str, to: &PublicIdentity) -> Option<KeyChange> {
        self.0.own.get(id).map(|own| KeyChange::new(own.secret(), to))
    }

    /// The key that is known for `id`: its own, a pinned one or a certified one.
    pub fn identity(&self, id: &str) -> Option<Arc<PublicIdentity>> {
        if let Some(own) = self.own(id) {
            return Some(own);
        }
        if let Some(known) = self.0.known.get(id) {
            return Some(known.identity.clone());
        }
        let pinned = self.0.services.read(id)?;
        self.set_known(pinned.clone(), 0, false);
        Some(pinned)
    }

    fn registry(&self) -> Result<Arc<PublicIdentity>, Problem> {
        self.identity(MeshService::Registry.name()).ok_or_else(|| {
            let message = "the key of the registry is not known yet; it is, once the registry has called or been called";
            Problem::new(Reason::RegistryUnavailable, message)
        })
    }

    /// Learns the key of a certificate. Fails, and keeps what is known, if the registry did not make it, or if it is of a key
    /// that another one has replaced.
    pub fn learn(&self, certificate: &KeyCertificate) -> Result<(), Problem> {
        let claimed = certificate.claimed();
        if let Some(own) = self.0.own.get(claimed.id().as_str()).map(|own| own.clone()) {
            self.verify_certificate(certificate)?;
            own.set_certificate(certificate);
            return Ok(());
        }
        let (id, number) = (claimed.id().as_str(), certificate.number());
        if self.0.revoked.get(id).is_some_and(|revoked| *revoked >= number) {
            let message =
                format!("the key {} of {id} was reset: it needs a new certificate", claimed.fingerprint());
            return Err(Problem::new(Reason::KeyMismatch, message));
        }
        if let Some(known) = self.0.known.get(id) {
            if known.identity.is_same(claimed) && known.number >= number {
                return Ok(());
            }
            if known.number > 0 && known.number >= number {
                let message = format!(
                    "{id} shows the key {} (no. {number}), but {} (no. {}) is known: only a later certificate of the registry replaces it",
                    claimed.fingerprint(),
                    known.identity.fingerprint(),
                    known.number
                );
                return Err(Problem::new(Reason::KeyMismatch, message));
            }
        }
        let identity = self.verify_certificate(certificate)?;
        self.set_known(identity, number, true);
        Ok(())
    }

    /// The identity of a certificate of the registry. One that it made with the key before its last rotation is accepted as long
    /// as that key is.
    fn verify_certificate(&self, certificate: &KeyCertificate) -> Result<Arc<PublicIdentity>, Problem> {
        let registry = self.registry()?;
        let verified = certificate.verify(&registry).cloned().or_else(|problem| {
            let previous = self.previous(MeshService::Registry.name()).ok_or(problem)?;
            certificate.verify(&previous).cloned()
        });
        verified.map(Arc::new)
    }

    /// Takes the key of an agent that the registry of this process has pinned.
    pub fn set_pinned(&self, identity: Arc<PublicIdentity>, number: u64) {
        self.set_known(identity, number, true);
    }

    /// Forgets the key of `id`, which the registry has given up: only a certificate later than `number` is accepted, or, without
    /// `number`, than that of the key.
    pub fn revoke(&self, id: &str, number: Option<u64>) {
        let is_older = |_: &String, known: &KnownIdentity| number.is_none_or(|number| known.number <= number);
        let known = self.0.known.remove_if(id, is_older).map(|(_, known)| known.number);
        if let Some(number) = number.or(known) {
            let mut revoked = self.0.revoked.entry(id.to_owned()).or_default();
            *revoked = number.max(*revoked);
        }
    }

    /// Takes the key of a service that has proven the join secret, and pins it. Fails if another key is pinned that `history`
    /// does not lead from.
    pub fn pin_service(&self, identity: &Arc<PublicIdentity>, history: &KeyHistory) -> Result<(), Problem> {
        self.0.services.pin(identity, history)?;
        let before = self.0.known.get(identity.id().as_str()).map(|known| known.identity.clone());
        // A service whose pin a person has removed is another one.
        let is_rotated = before.is_some_and(|before| history.leads(&before, identity));
        self.set_known(identity.clone(), 0, is_rotated);
        Ok(())
    }

    /// Takes the key of a service of another process, if `history` leads to it from the one that is known. It needs no proof of
    /// the join secret. Does nothing if none is known.
    pub fn follow_service(
        &self,
        identity: &Arc<PublicIdentity>,
        history: &KeyHistory,
    ) -> Result<(), Problem> {
        let id = identity.id().as_str();
        match self.identity(id) {
            Some(known) if !known.is_same(identity) && self.own(id).is_none() => {
                self.pin_service(identity, history)
            }
            Some(_) | None => Ok(()),
        }
    }

    fn set_known(&self, identity: Arc<PublicIdentity>, number: u64, is_rotated: bool) {
        let id = identity.id().to_string();
        let before = self.0.known.get(&id);
        let previous = before.and_then(|known| match known.identity.is_same(&identity) {
            true => known.previous.clone(),
            false => is_rotated.then(|| (known.identity.clone(), Instant::now())),
        });
        self.0.known.insert(id, KnownIdentity { identity, number, previous });
    }

    /// The key of `id` that another one has replaced, as long as it is good for what is under way.
    fn previous(&self, id: &str) -> Option<Arc<PublicIdentity>> {
        let known = self.0.known.get(id)?;
        let (identity, since) = known.previous.as_ref()?;
        (since.elapsed() < GRACE).then(|| identity.clone())
    }

    /// The headers that prove that `me` made the request `parts`, once. Fails if no key of the recipient is known.
    pub fn sign_request(
        &self,
        me: &AgentId,
        parts: &SignedParts<'_>,
        now: u64,
    ) -> Result<SignatureHeaders, Problem> {
        self.sign_request_for(me, parts, now, None)
    }

    /// The same for a request that `me` makes for a user.
    pub fn sign_request_for(
        &self,
        me: &AgentId,
        parts: &SignedParts<'_>,
        now: u64,
        user: Option<&Principal>,
    ) -> Result<SignatureHeaders, Problem> {
        let key = self.key_with(me.as_str(), parts.recipient, now)?;
        let nonce = uuid::Uuid::new_v4().simple().to_string();
        Ok(key.sign_request_for(me, parts, now, (Some(&nonce), user)))
    }

    /// The headers that prove that `me` made the response `parts` to a request of `to`.
    pub fn sign_response(
        &self,
        me: &AgentId,
        to: &str,
        parts: &SignedResponse<'_>,
        now: u64,
    ) -> Result<SignatureHeaders, Problem> {
        Ok(self.key_with(me.as_str(), to, now)?.sign_response(me, parts, now))
    }

    fn key_with(&self, me: &str, peer: &str, now: u64) -> Result<Secret, Problem> {
        let own = self.0.own.get(me).map(|own| own.clone());
        let own = own.ok_or_else(|| unauthenticated(format!("this process has no key of {me}")))?;
        let identity =
            self.identity(peer).ok_or_else(|| unauthenticated(format!("no key of {peer} is known")))?;
        own.key_of(&identity, now)
            .ok_or_else(|| unauthenticated(format!("the key of {peer} agrees with nobody")))
    }

    /// The signature of the agent or service that signed `parts`. 401 if its key is not known here, if it is not the signature of that key, or
    /// if the recipient is not here.
    pub fn verify_request(
        &self,
        parts: &SignedParts<'_>,
        presented: &PresentedSignature<'_>,
        now: u64,
    ) -> Result<SignatureClaim, Problem> {
        verify_request(parts, presented, now, |claim| self.check(parts.recipient, claim, now))
    }

    /// Checks that `by` signed the response to `me`. Returns when, in Unix seconds.
    pub fn verify_response(
        &self,
        (me, by): (&AgentId, &AgentId),
        parts: &SignedResponse<'_>,
        presented: &PresentedSignature<'_>,
        now: u64,
    ) -> Result<u64, Problem> {
        verify_response(by, parts, presented, now, |claim| self.check(me.as_str(), claim, now).is_ok())
    }

    /// Checks that a claim is under the key that `me`, of this process, shares with the claimed signer.
    fn check(&self, me: &str, claim: &SignatureClaim, now: u64) -> Result<(), Problem> {
        let signer = claim.agent().as_str();
        let own = self.0.own.get(me).map(|own| own.clone());
        let own = own.ok_or_else(|| unauthenticated("signed for a recipient that is not here"))?;
        let Some(identity) = self.identity(signer) else {
            let message = match claim.is_signed_by(&self.0.join) {
                true => format!(
                    "signed with the join secret, which only admits: the process of {signer} is of an earlier version, update it"
                ),
                false => format!("no key of {signer} is known here; POST {} tells it", routes::JOIN),
            };
            return Err(unauthenticated(message).with(UNKNOWN_KEY, true));
        };
        let is_good = |peer: &Arc<PublicIdentity>| own.has_made(peer, claim, now);
        match is_good(&identity) || self.previous(signer).is_some_and(|previous| is_good(&previous)) {
            true => Ok(()),
            false => Err(unauthenticated("the signature is not right")),
        }
    }
}

const UNKNOWN_KEY: &str = "unknownKey";

/// Whether a request was refused only because no key of its signer is known. It guesses nothing.
pub fn is_unknown_key(problem: &Problem) -> bool {
    problem.metadata.iter().any(|(key, _)| *key == UNKNOWN_KEY)
}

fn unauthenticated(message: impl Into<String>) -> Problem {
    Problem::new(Reason::Unauthenticated, message)
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing").field("known", &self.0.known.len()).finish_non_exhaustive()
    }
}
