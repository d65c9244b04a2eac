//! Who sends a request: the agent that signed it, or the user on this machine.

use super::{callers::Callers, local_callers::LocalCallers, origin};
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

/// What this node can prove about others, and as whom it may be addressed.
#[derive(Clone)]
pub struct Auth {
    verifier: Option<Verifier>,
    local: LocalCallers,
    watchers: LocalCallers,
    hosts: Arc<[String]>,
    callers: Callers,
    serves: Arc<dyn Fn(&str) -> bool + Send + Sync>,
}

impl Auth {
    /// Takes what `verifier` proves, if its recipient is one that `serves` knows: an agent here, `registry`, `board`.
    pub fn new(verifier: Verifier, serves: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self {
            verifier: Some(verifier),
            local: LocalCallers::default(),
            watchers: LocalCallers::default(),
            hosts: Arc::default(),
            callers: Callers::default(),
            serves: Arc::new(serves),
        }
    }

    /// Proves nobody: every signature is refused, every other request is the local user's.
    pub fn users_only() -> Self {
        Self {
            verifier: None,
            local: LocalCallers::default(),
            watchers: LocalCallers::default(),
            hosts: Arc::default(),
            callers: Callers::default(),
            serves: Arc::new(|_| false),
        }
    }

    /// The same, which takes whoever calls from `local` for the user of this machine.
    #[must_use]
    pub fn with_local_callers(self, local: LocalCallers) -> Self {
        Self { local, ..self }
    }

    /// The same, which lets whoever calls from `watchers` read what is counted, and nothing else.
    #[must_use]
    pub fn with_watchers(self, watchers: LocalCallers) -> Self {
        Self { watchers, ..self }
    }

    /// The same, which may be called by these names without a credential too, beside loopback's.
    #[must_use]
    pub fn with_user_hosts(self, hosts: Vec<String>) -> Self {
        Self { hosts: hosts.into(), ..self }
    }

    /// The user who shows this, if it is one; `local` is the one of this machine, who needs no credential where the call
    /// comes from there and names no agent's host.
    pub(super) fn user(&self, shown: &Shown<'_>, local: &Principal) -> Result<Option<Principal>, Problem> {
        if let Some(user) = self.callers.of(shown.key, shown.authorization)? {
            return Ok(Some(user));
        }
        if !shown.from.is_some_and(|from| self.local.admit(from)) {
            return Ok(None);
        }
        shown.called.iter().try_for_each(|host| origin::check_user_host(host, &self.hosts))?;
        Ok(Some(local.clone()))
    }

    /// The same, which knows these users by their credentials.
    #[must_use]
    pub fn with_callers(self, callers: Callers) -> Self {
        Self { callers, ..self }
    }
}

/// What a call without a signature shows of who makes it.
pub(super) struct Shown<'a> {
    /// An API key.
    pub(super) key: Option<&'a str>,
    /// A credential of another scheme.
    pub(super) authorization: Option<&'a str>,
    /// Where it comes from.
    pub(super) from: Option<IpAddr>,
    /// The hosts it means.
    pub(super) called: &'a [&'a str],
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth").field("verifier", &self.verifier).finish_non_exhaustive()
    }
}

/// What lies here is for everyone (RFC 8615).
const WELL_KNOWN: &str = "/.well-known/";

/// Whether it is a foreign agent's call back: what proves it is the token of the place that it calls, and the route
/// answers nobody without.
fn is_call_back(request: &ServiceRequest) -> bool {
    let place = request.path().strip_prefix(routes::HOOKS).and_then(|rest| rest.strip_prefix('/'));
    *request.method() == Method::POST && place.is_some_and(|place| !place.contains('/'))
}

/// Who it is, and the body's digest if it had to be computed.
pub(super) struct Who {
    pub(super) principal: Principal,
    pub(super) digest: Option<Digest>,
}

/// Who sends `request`. A signature that is there must be right; it never falls back to the user.
pub(super) fn of(
    request: &ServiceRequest,
    body: &[u8],
    auth: &Auth,
    user: &Principal,
) -> Result<Who, Problem> {
    let input = field(request, &headers::SIGNATURE_INPUT)?;
    let signature = field(request, &headers::SIGNATURE)?;
    if input.is_none() && signature.is_none() {
        let text = |name: &HeaderName| request.headers().get(name)?.to_str().ok();
        let from = request.peer_addr().map(|peer| peer.ip());
        let is_watcher =
            || request.path() == routes::METRICS && from.is_some_and(|from| auth.watchers.admit(from));
        let is_well_known = request.method().is_safe() && request.path().starts_with(WELL_KNOWN);
        let is_for_everyone =
            is_call_back(request) || is_well_known || request.method().is_safe() && is_watcher();
        let called = origin::called(request);
        let shown = Shown {
            key: text(&headers::API_KEY),
            authorization: text(&AUTHORIZATION),
            from: from.filter(|_| !is_for_everyone),
            called: &called,
        };
        let found = match auth.user(&shown, user) {
            // What is public asks for no credential, so none can be wrong.
            Err(_) if is_well_known => None,
            found => found?,
        };
        let found = found.or_else(|| is_for_everyone.then(|| user.clone())).ok_or_else(stranger)?;
        return Ok(Who { principal: found, digest: None });
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
    Ok(Who { principal: Principal::Agent(agent), digest: Some(digest) })
}

/// A header's value, several lines of it joined as RFC 9421 §2.1 says.
fn field<'a>(request: &'a ServiceRequest, name: &HeaderName) -> Result<Option<Cow<'a, str>>, Problem> {
    let mut lines = request.headers().get_all(name);
    let Some(first) = lines.next() else { return Ok(None) };
    // What `to_str` takes, which looks at each byte by itself: no header value holds a control character.
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

/// The refusal of whoever is nobody's user here.
pub(super) fn stranger() -> Problem {
    unauthenticated("from another machine, a credential is needed")
}

fn unauthenticated(message: &str) -> Problem {
    Problem::new(Reason::Unauthenticated, message)
}
