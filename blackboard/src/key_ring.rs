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
    identity::{IdentityKey, KeyCertificate, KeyChange, PublicIdentity},
    ids::AgentId,
    principal::MeshService,
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
        let id = key.public().id().to_string();
        let previous = self.0.own.get(&id).map(|own| own.clone());
        self.0.own.insert(id, Arc::new(OwnIdentity::new(key, previous)));
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
        self.set_known(pinned.clone(), 0);
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
            certificate.verify(self.registry()?.as_ref())?;
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
        let registry = self.registry()?;
        let identity = Arc::new(certificate.verify(&registry)?.clone());
        self.set_known(identity, number);
        Ok(())
    }

    /// Takes the key of an agent that the registry of this process has pinned.
    pub fn set_pinned(&self, identity: Arc<PublicIdentity>, number: u64) {
        self.set_known(identity, number);
    }

    /// Forgets the key of `id`, which the registry has given up: only a later certificate is accepted.
    pub fn revoke(&self, id: &str) {
        if let Some((id, known)) = self.0.known.remove(id) {
            self.0.revoked.insert(id, known.number);
        }
    }

    /// Takes the key of a service that has proven the join secret, and pins it. Fails if another key is pinned.
    pub fn pin_service(&self, identity: &Arc<PublicIdentity>) -> Result<(), Problem> {
        self.0.services.pin(identity)?;
        self.set_known(identity.clone(), 0);
        Ok(())
    }

    fn set_known(&self, identity: Arc<PublicIdentity>, number: u64) {
        let id = identity.id().to_string();
        let before = self.0.known.get(&id);
        let previous = before.and_then(|known| match known.identity.is_same(&identity) {
            true => known.previous.clone(),
            // A service whose pin a person has removed is another one.
            false => (known.number > 0 && number > 0).then(|| (known.identity.clone(), Instant::now())),
        });
        self.0.known.insert(id, KnownIdentity { identity, number, previous });
    }

    /// The headers that prove that `me` made the request `parts`. Fails if no key of the recipient is known.
    pub fn sign_request(
        &self,
        me: &AgentId,
        parts: &SignedParts<'_>,
        now: u64,
    ) -> Result<SignatureHeaders, Problem> {
        let key = self.key_with(me.as_str(), parts.recipient, now)?;
        Ok(key.sign_request(me, parts, now))
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

    /// The agent or service that signed `parts`. 401 if its key is not known here, if it is not the signature of that key, or
    /// if the recipient is not here.
    pub fn verify_request(
        &self,
        parts: &SignedParts<'_>,
        presented: &PresentedSignature<'_>,
        now: u64,
    ) -> Result<AgentId, Problem> {
        verify_request(parts, presented, now, |claim| self.check(parts.recipient, claim, now))
    }

    /// Checks that `by` signed the response to `me`.
    pub fn verify_response(
        &self,
        (me, by): (&AgentId, &AgentId),
        parts: &SignedResponse<'_>,
        presented: &PresentedSignature<'_>,
        now: u64,
    ) -> Result<(), Problem> {
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
        let previous = || {
            let known = self.0.known.get(signer)?;
            let (identity, since) = known.previous.as_ref()?;
            (since.elapsed() < GRACE).then(|| identity.clone())
        };
        match is_good(&identity) || previous().is_some_and(|previous| is_good(&previous)) {
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
