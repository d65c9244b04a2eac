//! Authenticates the sender of a request: the agent that signed it, a user with a credential, or the user of this machine.

use super::{
    callers::Callers,
    local_callers::LocalCallers,
    origin,
    tokens::{self, IssuedTokens},
};
use crate::http::headers;
use actix_web::{
    dev::ServiceRequest,
    http::{
        Method,
        header::{AUTHORIZATION, HeaderName},
    },
};
use protocol::{
    ids::Digest,
    principal::Principal,
    problem::{Problem, Reason},
    routes,
    signature::{PresentedSignature, SignedParts, Verifier},
};
use std::{
    borrow::Cow,
    fmt,
    net::IpAddr,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

/// How requests are authenticated, and which recipients may be addressed here.
#[derive(Clone)]
pub struct Auth {
    verifier: Option<Verifier>,
    local: LocalCallers,
    metrics_callers: LocalCallers,
    hosts: Arc<[String]>,
    callers: Callers,
    tokens: IssuedTokens,
    serves: Arc<dyn Fn(&str) -> bool + Send + Sync>,
}

impl Auth {
    /// Accepts signatures that `verifier` verifies, if `serves` is true for their recipient: an agent, `registry`, `board`.
    pub fn new(verifier: Verifier, serves: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self {
            verifier: Some(verifier),
            local: LocalCallers::default(),
            metrics_callers: LocalCallers::default(),
            hosts: Arc::default(),
            callers: Callers::default(),
            tokens: IssuedTokens::default(),
            serves: Arc::new(serves),
        }
    }

    /// Refuses every signature. Every other request is the local user's.
    pub fn users_only() -> Self {
        Self {
            verifier: None,
            local: LocalCallers::default(),
            metrics_callers: LocalCallers::default(),
            hosts: Arc::default(),
            callers: Callers::default(),
            tokens: IssuedTokens::default(),
            serves: Arc::new(|_| false),
        }
    }

    /// Treats callers from the networks `local` as the user of this machine.
    #[must_use]
    pub fn with_local_callers(self, local: LocalCallers) -> Self {
        Self { local, ..self }
    }

    /// Lets callers from the networks `metrics_callers` read `/metrics` without a credential, and nothing else.
    #[must_use]
    pub fn with_metrics_callers(self, metrics_callers: LocalCallers) -> Self {
        Self { metrics_callers, ..self }
    }

    /// Accepts these host names, beside loopback's, in calls without a credential.
    #[must_use]
    pub fn with_user_hosts(self, hosts: Vec<String>) -> Self {
        Self { hosts: hosts.into(), ..self }
    }

    /// The user, or the brain of this node, that these credentials prove; without a credential `local`, if the call comes from this machine and
    /// addresses no agent's host name.
    pub(super) fn user(
        &self,
        presented: &PresentedCredentials<'_>,
        local: &Principal,
    ) -> Result<Option<Principal>, Problem> {
        if let Some(principal) = self.tokens.principal(presented.authorization)? {
            return Ok(Some(principal));
        }
        if let Some(user) = self.callers.authenticate(presented.key, presented.authorization)? {
            return Ok(Some(user));
        }
        if !presented.from.is_some_and(|from| self.local.contains(from)) {
            return Ok(None);
        }
        presented.hosts.iter().try_for_each(|host| origin::check_user_host(host, &self.hosts))?;
        Ok(Some(local.clone()))
    }

    /// Accepts the tokens that the mesh has made.
    #[must_use]
    pub fn with_tokens(self, tokens: IssuedTokens) -> Self {
        Self { tokens, ..self }
    }

    /// Accepts the credentials of these users.
    #[must_use]
    pub fn with_callers(self, callers: Callers) -> Self {
        Self { callers, ..self }
    }
}

/// What a call without a signature presents about its sender.
pub(super) struct PresentedCredentials<'a> {
    pub(super) key: Option<&'a str>,
    pub(super) authorization: Option<&'a str>,
    /// The peer's address. `None` excludes the local user.
    pub(super) from: Option<IpAddr>,
    pub(super) hosts: &'a [&'a str],
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth").field("verifier", &self.verifier).finish_non_exhaustive()
    }
}

/// Paths that are public (RFC 8615).
const WELL_KNOWN: &str = "/.well-known/";

/// Whether it is a foreign agent's callback. The route itself checks the callback's token.
fn is_callback(request: &ServiceRequest) -> bool {
    let id = request.path().strip_prefix(routes::HOOKS).and_then(|rest| rest.strip_prefix('/'));
    *request.method() == Method::POST && id.is_some_and(|id| !id.contains('/'))
}

/// The sender, and the body's digest if it was computed.
pub(super) struct AuthenticatedSender {
    pub(super) principal: Principal,
    pub(super) digest: Option<Digest>,
}

/// Authenticates `request`. Fails for a bad signature; it never counts as the user's request.
pub(super) fn authenticate(
    request: &ServiceRequest,
    body: &[u8],
    auth: &Auth,
    user: &Principal,
) -> Result<AuthenticatedSender, Problem> {
    let input = field(request, &headers::SIGNATURE_INPUT)?;
    let signature = field(request, &headers::SIGNATURE)?;
    if input.is_none() && signature.is_none() {
        let text = |name: &HeaderName| request.headers().get(name)?.to_str().ok();
        let from = request.peer_addr().map(|peer| peer.ip());
        let is_metrics_caller = || {
            request.path() == routes::METRICS && from.is_some_and(|from| auth.metrics_callers.contains(from))
        };
        let is_well_known = request.method().is_safe() && request.path().starts_with(WELL_KNOWN);
        let is_public =
            is_callback(request) || is_well_known || request.method().is_safe() && is_metrics_caller();
        let hosts = origin::addressed_hosts(request);
        let presented = PresentedCredentials {
            key: text(&headers::API_KEY),
            authorization: text(&AUTHORIZATION),
            from: from.filter(|_| !is_public),
            hosts: &hosts,
        };
        let found = match auth.user(&presented, user) {
            // A public path needs no credential, so a wrong one is ignored.
            Err(_) if is_well_known => None,
            found => found?,
        };
        let found = found.or_else(|| is_public.then(|| user.clone())).ok_or_else(credential_required)?;
        tokens::check_reach(&found, request.method().as_str(), request.path())?;
        return Ok(AuthenticatedSender { principal: found, digest: None });
    }
    let Some(verifier) = &auth.verifier else {
        return Err(unauthenticated("this node has no secret to check a signature with"));
    };
    let content_digest = field(request, &headers::CONTENT_DIGEST)?;
    let message_id = field(request, &headers::MESSAGE_ID)?;
    let Some(recipient) = field(request, &headers::RECIPIENT)? else {
        return Err(unauthenticated("a signed request names its recipient in Mesh-Recipient"));
    };
    let digest = Digest::of(body);
    let parts = SignedParts {
        method: request.method().as_str(),
        path_and_query: request.uri().path_and_query().map_or("/", |target| target.as_str()),
        recipient: &recipient,
        message_id: message_id.as_deref(),
        digest,
    };
    let presented = PresentedSignature {
        content_digest: content_digest.as_deref(),
        signature_input: input.as_deref(),
        signature: signature.as_deref(),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let agent = verifier.verify(&parts, &presented, now)?;
    if !(auth.serves)(&recipient) {
        return Err(unauthenticated("signed for a recipient that is not here"));
    }
    Ok(AuthenticatedSender { principal: Principal::of_signer(agent), digest: Some(digest) })
}

/// A header's value; several lines are joined (RFC 9421 §2.1). Fails if it is not ASCII.
fn field<'a>(request: &'a ServiceRequest, name: &HeaderName) -> Result<Option<Cow<'a, str>>, Problem> {
    let mut lines = request.headers().get_all(name);
    let Some(first) = lines.next() else { return Ok(None) };
    // Same result as `to_str`, which is slower: a header value has no control characters.
    let text = |line: &'a actix_web::http::header::HeaderValue| {
        let text = std::str::from_utf8(line.as_bytes()).ok().filter(|text| text.is_ascii());
        text.map(str::trim).ok_or_else(|| unauthenticated(&format!("{name} is no text")))
    };
    let mut value = Cow::Borrowed(text(first)?);
    for line in lines {
        value = Cow::Owned(format!("{value}, {}", text(line)?));
    }
    Ok(Some(value))
}

/// The refusal of a request without a credential from another machine.
pub(super) fn credential_required() -> Problem {
    unauthenticated(
        "from another machine, a credential is needed: `Authorization: Bearer` with the person's token (`mesh token`), or that \
         of a caller (`mesh: { callers: … }`)",
    )
}

fn unauthenticated(message: &str) -> Problem {
    Problem::new(Reason::Unauthenticated, message)
}
