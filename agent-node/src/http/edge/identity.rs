//! Authenticates the sender of a request: the agent that signed it, a user with a credential, or the user of this machine.

use super::{
    console_access,
    console_sessions::{ConsoleSessions, ConsoleUser},
    is_signed, origin,
    public_urls::PublicUrls,
    taken_requests::TakenRequests,
    tokens::{self, IssuedTokens, RequestTarget},
};
use crate::{
    budget_holder::BudgetHolder,
    callers::Callers,
    clock::wall_time,
    http::{
        client_address::{FORWARDED_FOR, client_address, counted_as},
        headers,
        listener::ListenerAddress,
        local_callers::LocalCallers,
    },
    token_format::PEER_PREFIX,
};
use actix_web::{
    dev::ServiceRequest,
    http::{
        Method,
        header::{AUTHORIZATION, HeaderName, ORIGIN},
    },
};
use protocol::{
    ids::Digest,
    principal::{MeshService, Principal},
    problem::{Problem, Reason},
    routes,
    signature::{PresentedSignature, SignedParts, declared_digest, verify_request},
};
use std::{
    fmt,
    net::IpAddr,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};
use transport::key_ring::KeyRing;

/// How requests are authenticated, and which recipients may be addressed here.
#[derive(Clone)]
pub struct Auth {
    keys: Option<KeyRing>,
    local: LocalCallers,
    metrics_callers: LocalCallers,
    trusted_proxies: LocalCallers,
    public_urls: Arc<PublicUrls>,
    callers: Callers,
    tokens: IssuedTokens,
    console: ConsoleSessions,
    taken: Arc<TakenRequests>,
}

impl Auth {
    /// Accepts signatures under the key that an agent or service of this process shares with the signer, and under the join
    /// secret at [`routes::JOIN`].
    pub fn new(keys: KeyRing) -> Self {
        Self { keys: Some(keys), ..Self::users_only() }
    }

    /// Refuses every signature. Every other request is the local user's.
    pub fn users_only() -> Self {
        Self {
            keys: None,
            local: LocalCallers::default(),
            metrics_callers: LocalCallers::default(),
            trusted_proxies: LocalCallers::default(),
            public_urls: Arc::default(),
            callers: Callers::default(),
            tokens: IssuedTokens::default(),
            console: ConsoleSessions::default(),
            taken: Arc::default(),
        }
    }

    /// Treats callers from the networks `local` as the user of this machine.
    #[must_use]
    pub fn with_local_callers(self, local: LocalCallers) -> Self {
        Self { local, ..self }
    }

    /// Believes what the proxies in `proxies` say of the address of their clients.
    #[must_use]
    pub fn with_trusted_proxies(self, proxies: LocalCallers) -> Self {
        Self { trusted_proxies: proxies, ..self }
    }

    /// Takes requests at these URLs, too, and tickets of the person that were made for their hosts.
    #[must_use]
    pub fn with_public_urls(self, urls: PublicUrls) -> Self {
        Self { public_urls: Arc::new(urls), ..self }
    }

    pub(super) fn public_urls(&self) -> &PublicUrls {
        &self.public_urls
    }

    /// The networks whose connections are not limited by address: those of the user of this machine, and of proxies, behind which
    /// are many callers.
    pub(super) fn uncounted_peers(&self) -> LocalCallers {
        self.local.and(&self.trusted_proxies)
    }

    /// The address whose budget a request without a credential uses.
    pub(super) fn client_address(&self, request: &ServiceRequest) -> Option<IpAddr> {
        let lines = request.headers().get_all(FORWARDED_FOR).filter_map(|line| line.to_str().ok());
        let lines: Vec<_> = lines.collect();
        Some(self.client_behind(request.peer_addr()?.ip(), &lines))
    }

    /// What the caller behind `peer`, which passes on these lines of [`FORWARDED_FOR`], is counted as.
    pub(super) fn client_behind(&self, peer: IpAddr, forwarded_for: &[&str]) -> IpAddr {
        counted_as(client_address(peer, forwarded_for.iter().copied(), &self.trusted_proxies))
    }

    /// Lets callers from the networks `metrics_callers` read `/metrics` without a credential, and nothing else.
    #[must_use]
    pub fn with_metrics_callers(self, metrics_callers: LocalCallers) -> Self {
        Self { metrics_callers, ..self }
    }

    /// The user, or the brain of this node, that these credentials prove, and whose budget the call uses; without a credential
    /// `local`, if the call comes from this machine, addresses loopback and is not passed on by a proxy.
    pub(super) fn user(
        &self,
        presented: &PresentedCredentials<'_>,
        local: &Principal,
    ) -> Result<Option<(Principal, BudgetHolder)>, Problem> {
        let by_token =
            presented.authorization.map(|value| self.bearer(value, presented.target())).transpose()?;
        let by_key = presented.key.map(|key| self.callers.of_key(key)).transpose()?;
        if let (Some(one), Some(other)) = (&by_token, &by_key)
            && one != other
        {
            return Err(unauthenticated("the API key and the bearer token prove different callers"));
        }
        if let Some(principal) = by_token.or(by_key) {
            let holder = match principal == *local {
                true if presented.is_outbound => return Err(outbound_is_not_local(Reason::Forbidden)),
                true => BudgetHolder::Person,
                false => BudgetHolder::Principal(principal.clone()),
            };
            return Ok(Some((principal, holder)));
        }
        if !presented.from.is_some_and(|from| self.local.contains(from)) {
            return Ok(None);
        }
        if presented.is_outbound {
            return Err(outbound_is_not_local(Reason::Unauthenticated));
        }
        if presented.has_origin {
            return Err(credential_required("of a web page (Origin)"));
        }
        if presented.is_proxied {
            return Err(credential_required(
                "through a proxy (Forwarded, X-Forwarded-\u{2026}, X-Real-IP or Via)",
            ));
        }
        if !presented.hosts.iter().all(|host| origin::is_loopback_host(host)) {
            return Err(credential_required("with another Host than localhost or a loopback address"));
        }
        Ok(Some((local.clone(), BudgetHolder::Principal(local.clone()))))
    }

    /// The principal that the value of `Authorization` proves.
    fn bearer(&self, authorization: &str, target: RequestTarget<'_>) -> Result<Principal, Problem> {
        let Some(token) = bearer_token(authorization) else {
            return Err(unauthenticated("the value of Authorization must be `Bearer TOKEN`"));
        };
        match self.tokens.principal(token, target, &self.public_urls, wall_time())? {
            Some(principal) => Ok(principal),
            None => self.callers.of_token(token),
        }
    }

    /// Accepts the tokens that the mesh has made.
    #[must_use]
    pub fn with_tokens(self, tokens: IssuedTokens) -> Self {
        Self { tokens, ..self }
    }

    /// Takes requests of pages of the console in these sessions.
    #[must_use]
    pub fn with_console(self, console: ConsoleSessions) -> Self {
        Self { console, ..self }
    }

    /// Takes no signed request that is among these, and adds to them.
    #[must_use]
    pub fn with_taken_requests(self, taken: TakenRequests) -> Self {
        Self { taken: Arc::new(taken), ..self }
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
    /// Whether a mesh's client for the outside makes the call, for instance to a webhook that a caller named.
    pub(super) is_outbound: bool,
    /// Whether a proxy passes the call on.
    pub(super) is_proxied: bool,
    /// Whether a web page makes the call.
    pub(super) has_origin: bool,
    pub(super) hosts: &'a [&'a str],
    /// The port at which the call arrived; `None` takes no tickets of the person.
    pub(super) port: Option<u16>,
}

impl PresentedCredentials<'_> {
    fn target(&self) -> RequestTarget<'_> {
        RequestTarget { authority: self.hosts.first().copied().unwrap_or_default(), port: self.port }
    }
}

pub(crate) fn bearer_token(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth").field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// Paths that are public (RFC 8615).
const WELL_KNOWN: &str = "/.well-known/";

/// Whether it is a foreign agent's callback, or a delivery to a trigger. The route itself checks its token or signature.
fn is_callback(request: &ServiceRequest) -> bool {
    let below = |base: &str| request.path().strip_prefix(base)?.strip_prefix('/');
    let id = below(routes::HOOKS).or_else(|| below(routes::TRIGGERS));
    *request.method() == Method::POST && id.is_some_and(|id| !id.contains('/'))
}

pub(super) struct AuthenticatedSender {
    pub(super) principal: Principal,
    /// Whose budget the request uses. The address's if it needs no credential: at a public path, and at [`routes::JOIN`].
    pub(super) holder: BudgetHolder,
    /// The digest that the body must have, if the request is signed.
    pub(super) digest: Option<Digest>,
    /// When it was signed, if it is.
    pub(super) signed_at: Option<SignedAt>,
}

/// When a request was signed, by its sender's clock, Unix seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SignedAt(pub(crate) u64);

impl AuthenticatedSender {
    /// Fails if the request is signed for another body. `digest` is that of a body of which files were taken out.
    pub(super) fn check_body(&self, body: &[u8], digest: Option<Digest>) -> Result<(), Problem> {
        match self.digest.is_none_or(|signed| signed == digest.unwrap_or_else(|| Digest::of(body))) {
            true => Ok(()),
            false => Err(unauthenticated("Content-Digest is not the sha-256 of the body")),
        }
    }
}

/// Authenticates `request` by its head. The sender of a signed request is authenticated once its body has the signed digest, and
/// is never the user.
pub(super) fn authenticate(
    request: &ServiceRequest,
    auth: &Auth,
    user: &Principal,
) -> Result<AuthenticatedSender, Problem> {
    let is_signed = is_signed(request);
    if !is_signed && request.path() == routes::JOIN {
        return Err(unauthenticated("keys are told under the join secret"));
    }
    if !is_signed {
        if let Some(ConsoleUser { principal, holder }) = console_access::user(request, &auth.console)? {
            return Ok(AuthenticatedSender { principal, holder, digest: None, signed_at: None });
        }
        let text = |name: &HeaderName| {
            single(name.as_str(), request.headers().get_all(name).map(|value| value.as_bytes()))
        };
        let from = request.peer_addr().map(|peer| peer.ip());
        let is_outbound = request.headers().contains_key(&headers::OUTBOUND);
        let is_proxied = request.headers().keys().any(|name| origin::is_proxy_header(name.as_str()));
        let has_origin = request.headers().contains_key(ORIGIN);
        let is_metrics_caller = || {
            !is_outbound
                && !has_origin
                && !is_proxied
                && request.path() == routes::METRICS
                && from.is_some_and(|from| auth.metrics_callers.lists(from))
        };
        // A browser that comes back from a login has no credential; the state in its URL names the login.
        let is_login_callback = request.path() == routes::LOGIN_CALLBACK;
        let is_well_known =
            request.method().is_safe() && (request.path().starts_with(WELL_KNOWN) || is_login_callback);
        let is_public = is_callback(request)
            || is_well_known
            || console_access::is_public(request)
            || request.method().is_safe() && is_metrics_caller();
        let hosts = origin::addressed_hosts(request);
        let port = request.conn_data::<ListenerAddress>().map(|ListenerAddress(address)| address.port());
        let found = text(&headers::API_KEY).and_then(|key| {
            let authorization = text(&AUTHORIZATION)?;
            // The callback ends a login for a browser of this machine only.
            let from = from.filter(|_| !is_public || is_login_callback);
            auth.user(
                &PresentedCredentials {
                    key,
                    authorization,
                    from,
                    is_outbound,
                    is_proxied,
                    has_origin,
                    hosts: &hosts,
                    port,
                },
                user,
            )
        });
        let found = match found {
            // A public path needs no credential, so a wrong one is ignored. A callback has a token of its own.
            Err(_) if is_well_known || is_callback(request) => None,
            found => found?,
        };
        let public = || is_public.then(|| (user.clone(), address_holder(request, auth, user)));
        let (principal, holder) =
            found.or_else(public).ok_or_else(|| credential_required("from another machine"))?;
        let token = request.headers().get(AUTHORIZATION).and_then(|value| bearer_token(value.to_str().ok()?));
        let is_peer = token.is_some_and(|token| token.starts_with(PEER_PREFIX));
        tokens::check_reach(&principal, is_peer, request.method().as_str(), request.path())?;
        return Ok(AuthenticatedSender { principal, holder, digest: None, signed_at: None });
    }
    verify_signature(request, auth, user)
}

/// The caller from the address of `request`; the user if it has none.
fn address_holder(request: &ServiceRequest, auth: &Auth, user: &Principal) -> BudgetHolder {
    match auth.client_address(request) {
        Some(client) => BudgetHolder::Address(client),
        None => BudgetHolder::Principal(user.clone()),
    }
}

/// The sender of the signed `request`, if its body has the digest that it says.
fn verify_signature(
    request: &ServiceRequest,
    auth: &Auth,
    user: &Principal,
) -> Result<AuthenticatedSender, Problem> {
    let field = |name: &HeaderName| {
        single(name.as_str(), request.headers().get_all(name).map(|value| value.as_bytes()))
            .map(|value| value.map(str::trim))
    };
    let input = field(&headers::SIGNATURE_INPUT)?;
    let signature = field(&headers::SIGNATURE)?;
    let Some(keys) = &auth.keys else {
        return Err(unauthenticated("this node has no key to check a signature with"));
    };
    let content_digest = field(&headers::CONTENT_DIGEST)?;
    let message_id = field(&headers::MESSAGE_ID)?;
    let Some(recipient) = field(&headers::RECIPIENT)? else {
        return Err(unauthenticated("a signed request names its recipient in Mesh-Recipient"));
    };
    let Some(digest) = content_digest.and_then(declared_digest) else {
        return Err(unauthenticated("a signed request has a Content-Digest with the sha-256 of its body"));
    };
    let parts = SignedParts {
        method: request.method().as_str(),
        path_and_query: request.uri().path_and_query().map_or("/", |target| target.as_str()),
        recipient,
        message_id,
        digest,
    };
    let presented = PresentedSignature { content_digest, signature_input: input, signature };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    if request.path() == routes::JOIN {
        // It proves the join secret, and nobody's name: the route takes what the keys in the body prove.
        let claim =
            verify_request(&parts, &presented, now, |claim| match claim.is_signed_by(keys.join_secret()) {
                true => Ok(()),
                false => Err(unauthenticated("it is not signed with the join secret of this mesh")),
            })?;
        auth.taken.take(&claim, now)?;
        let (holder, signed_at) = (address_holder(request, auth, user), Some(SignedAt(claim.created())));
        return Ok(AuthenticatedSender { principal: user.clone(), holder, digest: Some(digest), signed_at });
    }
    let claim = keys.verify_request(&parts, &presented, now)?;
    // A repeated message is answered as its first one was; one that nothing is kept of is harmless.
    if request.path() != routes::MESSAGES {
        auth.taken.take(&claim, now)?;
    }
    let signer = Principal::of_signer(claim.agent().clone());
    let principal = match claim.acts_for() {
        None => signer,
        // A page of its console: it has authenticated the user.
        Some(user) if signer == Principal::Service(MeshService::Registry) => user.clone(),
        Some(user) => {
            return Err(unauthenticated(&format!(
                "{signer} does not speak for {user}: the registry alone does"
            )));
        }
    };
    let holder = match principal == *user {
        true => BudgetHolder::Person,
        false => BudgetHolder::Principal(principal.clone()),
    };
    let signed_at = Some(SignedAt(claim.created()));
    Ok(AuthenticatedSender { principal, holder, digest: Some(digest), signed_at })
}

/// The value of a header that holds a credential. Fails if there are several, or if it is not text.
pub(crate) fn single<'a>(
    name: &str,
    values: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Option<&'a str>, Problem> {
    let mut values = values.into_iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = std::str::from_utf8(value).ok().filter(|text| text.is_ascii() && values.next().is_none());
    text.map(Some).ok_or_else(|| unauthenticated(&format!("{name} must be there once, and be text")))
}

/// The refusal of a call that would be the local user's, but comes from a mesh's client for the outside.
fn outbound_is_not_local(reason: Reason) -> Problem {
    let message = "a webhook, a callback or a call to a foreign agent (Mesh-Outbound) is never the local user's: give the \
                   calling mesh a credential of `mesh: { callers: [\u{2026}] }`";
    Problem::new(reason, message)
}

/// The refusal of a request without a credential that came `how`.
pub(super) fn credential_required(how: &str) -> Problem {
    unauthenticated(&format!(
        "{how}, a credential is needed: `Authorization: Bearer` with the person's token (`mesh token`), or that of a caller \
         (`mesh: {{ callers: … }}`)"
    ))
}

fn unauthenticated(message: &str) -> Problem {
    Problem::new(Reason::Unauthenticated, message)
}
