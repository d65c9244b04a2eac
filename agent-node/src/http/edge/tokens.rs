//! Tokens that the mesh itself has made: the person's, and those of the brains and of the agents' own processes at this node. Only what they are checked by is kept.
//! The command line sends tickets instead of the person's token ([`protocol::identity::PersonKey::ticket`]).

use crate::token_format::{BRAIN_PREFIX, PEER_PREFIX, PERSON_PREFIX};

use super::{origin, public_urls::PublicUrls};
use protocol::{
    identity::{PersonKey, PersonPublicKey, TICKET_PREFIX},
    ids::{AgentId, Digest},
    principal::Principal,
    problem::{Problem, Reason},
    routes,
    time::WallTime,
};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

/// The tokens that a process accepts. Cheap to clone; every clone shares them.
#[derive(Clone, Default)]
pub struct IssuedTokens {
    person: Arc<RwLock<Option<PersonPublicKey>>>,
    /// The person's own key, in the process that made the token.
    own_person: Arc<OnceLock<PersonKey>>,
    brains: Arc<RwLock<BTreeMap<Digest, AgentId>>>,
    peers: Arc<RwLock<BTreeMap<Digest, AgentId>>>,
}

/// Where a request was sent to, and where it arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestTarget<'a> {
    /// The value of `Host`.
    pub(super) authority: &'a str,
    /// The port that this process listens at; `None` takes no tickets.
    pub(super) port: Option<u16>,
}

impl RequestTarget<'_> {
    /// Whether the sender addressed this process, and not another one on the same host. Without a port it called a proxy, which has
    /// a name of its own.
    fn is_here(&self) -> bool {
        let after_name = self.authority.rsplit_once(']').map_or(self.authority, |(_, rest)| rest);
        let named = after_name.rsplit_once(':').map(|(_, port)| port.parse().ok());
        let is_here = |named| named == self.port;
        self.port.is_some() && named.map_or_else(|| !origin::is_loopback_name(self.authority), is_here)
    }
}

impl IssuedTokens {
    /// Accepts the person with this token, which this process has made.
    pub fn own_person(&self, token: &str) {
        let key = PersonKey::of_token(token);
        self.set_person(key.public());
        let _ = self.own_person.set(key);
    }

    /// The key with which `by` approves at the console of this process: the person's, where it is known.
    pub(in crate::http) fn approves_with(&self, by: &Principal) -> Option<&PersonKey> {
        self.own_person.get().filter(|_| *by == Principal::local_user())
    }

    /// Accepts the person whose token has this public key, and no other one.
    pub fn set_person(&self, key: PersonPublicKey) {
        *self.person.write().unwrap_or_else(PoisonError::into_inner) = Some(key);
    }

    /// The public key of the person's token, if it is known.
    pub fn person(&self) -> Option<PersonPublicKey> {
        *self.person.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The person's key, if `token` is the person's token itself.
    pub fn person_key(&self, token: &str) -> Option<PersonKey> {
        let key = token.starts_with(PERSON_PREFIX).then(|| PersonKey::of_token(token))?;
        (self.person() == Some(key.public())).then_some(key)
    }

    /// Fails unless `token` is the person's token, or a ticket made with it for this process, at its own address or a public one.
    fn check_person(
        &self,
        token: &str,
        target: RequestTarget<'_>,
        public: &PublicUrls,
        now: WallTime,
    ) -> Result<(), Problem> {
        let unknown = "the person's token is of another mesh, or the registry has not told it yet";
        let refused = |why: &str| Problem::new(Reason::Unauthenticated, why);
        if !token.starts_with(TICKET_PREFIX) {
            return self.person_key(token).map(drop).ok_or_else(|| refused(unknown));
        }
        let person = self.person().ok_or_else(|| refused(unknown))?;
        // A proxy may have replaced the public host by its own name for this process.
        let is_for = |public: &str| person.check_ticket(token, public, now).is_ok();
        if target.port.is_some() && public.authorities().any(is_for) {
            return Ok(());
        }
        if !target.is_here() {
            return Err(refused(
                "the person's ticket was made for another port than this process listens at: call it at its own port or its \
                 public URL, or with the person's token (`mesh token`)",
            ));
        }
        person.check_ticket(token, target.authority, now)
    }

    /// Accepts the token with this digest as that of the brain of `agent`.
    pub fn add_brain(&self, digest: Digest, agent: AgentId) {
        self.brains.write().unwrap_or_else(PoisonError::into_inner).insert(digest, agent);
    }

    /// Accepts the token with this digest, and no other one, as that of the process of `agent`.
    pub fn set_peer(&self, digest: Digest, agent: AgentId) {
        let mut peers = self.peers.write().unwrap_or_else(PoisonError::into_inner);
        peers.retain(|_, known| *known != agent);
        peers.insert(digest, agent);
    }

    /// The principal that the bearer token `token` proves in a request to `target`; `None` if it is no token of a mesh. Fails for
    /// one that is not accepted here.
    pub(super) fn principal(
        &self,
        token: &str,
        target: RequestTarget<'_>,
        public: &PublicUrls,
        now: WallTime,
    ) -> Result<Option<Principal>, Problem> {
        if token.starts_with(PERSON_PREFIX) || token.starts_with(TICKET_PREFIX) {
            self.check_person(token, target, public, now)?;
            return Ok(Some(Principal::local_user()));
        }
        let (known, why) = match () {
            () if token.starts_with(BRAIN_PREFIX) => {
                (&self.brains, "a brain's token is good at its own node only, and until that ends")
            }
            () if token.starts_with(PEER_PREFIX) => (
                &self.peers,
                "the token of an agent's process is good at the node that made it only, and until another one is made \
                 (`mesh token agent ID`)",
            ),
            () => return Ok(None),
        };
        let known = known.read().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(&Digest::of(token.as_bytes())).cloned().map(Principal::Brain);
        found.map(Some).ok_or_else(|| Problem::new(Reason::Unauthenticated, why))
    }
}

/// Refuses what a brain may not reach with its token (DESIGN §13): it reads the health and the cards of its node, the brief of its
/// agent, and content by its digest, and it stores content. With the token of an agent's process (`is_peer`) it also registers,
/// takes turns, sends messages, and sees and steers the tasks that follow from them.
pub(super) fn check_reach(
    principal: &Principal,
    is_peer: bool,
    method: &str,
    path: &str,
) -> Result<(), Problem> {
    let Principal::Brain(agent) = principal else { return Ok(()) };
    let is_content =
        path.strip_prefix(routes::ARTIFACTS).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let is_open =
        [routes::HEALTH, routes::READY, routes::CARD].contains(&path) || path.starts_with("/.well-known/");
    let is_brief = path.strip_prefix(routes::AGENT_SPACES).is_some_and(|rest| rest.ends_with("/brief"));
    let may = match method {
        "GET" | "HEAD" => is_open || is_content || is_brief,
        "PUT" => is_content,
        _ => false,
    };
    if may || is_peer && reaches_as_peer(method, path) {
        return Ok(());
    }
    let message = match is_peer {
        true => format!(
            "the token of {agent}'s process registers it, takes its turns, sends its messages and reads the tasks that follow; \
             it does not reach {method} {path}"
        ),
        false => format!(
            "the token of {agent}'s brain reaches the cards and the health of its node, its brief and artifacts, not {method} {path}; what a brain \
             asks of the mesh it writes as a line"
        ),
    };
    Err(Problem::new(Reason::Forbidden, message))
}

/// What the process of an agent reaches beside what every brain does.
fn reaches_as_peer(method: &str, path: &str) -> bool {
    let of_peer = path.strip_prefix(routes::PEER);
    let of_tasks = path.strip_prefix(routes::TASKS);
    let of_task = of_tasks.and_then(|rest| rest.strip_prefix('/'));
    let of_task = of_task.map(|rest| rest.split_once('/').map_or("", |(_, verb)| verb));
    match method {
        "PUT" | "DELETE" => of_peer == Some(""),
        "GET" => {
            of_peer == Some("/turns")
                || of_tasks == Some("")
                || of_task.is_some_and(|verb| ["", "events"].contains(&verb))
        }
        "POST" => {
            path == routes::MESSAGES
                || of_peer.is_some_and(|rest| ["/heartbeat", "/lines"].contains(&rest))
                || of_task.is_some_and(|verb| ["cancel", "answer"].contains(&verb))
        }
        _ => false,
    }
}

impl fmt::Debug for IssuedTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuedTokens").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token_format::random_token;

    const HERE: RequestTarget<'_> = RequestTarget { authority: "127.0.0.1:8000", port: Some(8000) };
    const NOW: WallTime = WallTime(1_000_000_000);

    #[test]
    fn a_token_proves_its_principal_where_it_is_known() {
        let (tokens, elsewhere) = (IssuedTokens::default(), IssuedTokens::default());
        let agent = AgentId::parse("a-1").unwrap();
        let (person, brain) = (random_token(PERSON_PREFIX), random_token(BRAIN_PREFIX));
        tokens.set_person(PersonKey::of_token(&person).public());
        tokens.add_brain(Digest::of(brain.as_bytes()), agent.clone());
        let of =
            |tokens: &IssuedTokens, token: &str| tokens.principal(token, HERE, &PublicUrls::default(), NOW);
        assert_eq!(of(&tokens, &person), Ok(Some(Principal::local_user())));
        assert_eq!(of(&tokens, &brain), Ok(Some(Principal::Brain(agent))));
        assert_eq!(of(&tokens, "a-callers-own-token"), Ok(None), "not one of a mesh");
        for unknown in [of(&elsewhere, &person), of(&elsewhere, &brain), of(&tokens, &format!("{brain}0"))] {
            assert_eq!(unknown.unwrap_err().reason, Reason::Unauthenticated);
        }
    }

    #[test]
    fn a_ticket_that_another_process_received_is_refused() {
        let tokens = IssuedTokens::default();
        let person = PersonKey::of_token(&random_token(PERSON_PREFIX));
        tokens.set_person(person.public());
        let public = PublicUrls::new(Some("https://mesh.example:8443/agents".parse().unwrap()), []);
        let at = |made_for: &str, authority: &str, port| {
            let target = RequestTarget { authority, port };
            tokens
                .principal(&person.ticket(made_for, NOW), target, &public, NOW)
                .map_err(|problem| problem.reason)
        };
        let user = Ok(Some(Principal::local_user()));
        assert_eq!(at("127.0.0.1:8000", "127.0.0.1:8000", Some(8000)), user);
        assert_eq!(at("[::1]:8000", "[::1]:8000", Some(8000)), user);
        assert_eq!(at("mesh.example", "mesh.example", Some(8000)), user, "behind a proxy");
        assert_eq!(at("mesh.example:8443", "mesh.example:8443", Some(8000)), user, "at its public URL");
        assert_eq!(
            at("mesh.example:8443", "127.0.0.1:8000", Some(8000)),
            user,
            "by a proxy that replaces Host"
        );
        for (made_for, authority, port) in [
            // The other process passes the ticket on, with its own address and with the right one.
            ("127.0.0.1:9000", "127.0.0.1:9000", Some(8000)),
            ("[::1]:9000", "[::1]:9000", Some(8000)),
            ("127.0.0.1:9000", "127.0.0.1:8000", Some(8000)),
            ("127.0.0.1:8000", "127.0.0.1:8000", None),
            ("mesh.example:8443", "mesh.example:8443", None),
            ("mesh.example:9443", "mesh.example:9443", Some(8000)),
            // A process at port 80 of this machine.
            ("localhost", "localhost", Some(8000)),
            ("127.0.0.1", "127.0.0.1", Some(8000)),
            ("[::1]", "[::1]", Some(8000)),
        ] {
            assert_eq!(at(made_for, authority, port), Err(Reason::Unauthenticated), "{made_for} {authority}");
        }
    }

    #[test]
    fn a_brain_reaches_content_cards_and_health_only() {
        let brain = Principal::Brain(AgentId::parse("a-1").unwrap());
        let may = |method: &str, path: &str| check_reach(&brain, false, method, path).is_ok();
        for (method, path) in [
            ("GET", "/healthz"),
            ("HEAD", "/readyz"),
            ("GET", "/.well-known/agent-card.json"),
            ("PUT", "/a2a/artifacts"),
            ("GET", "/a2a/artifacts/00"),
        ] {
            assert!(may(method, path), "{method} {path}");
        }
        for (method, path) in [
            ("POST", "/a2a/messages"),
            ("GET", "/a2a/tasks"),
            ("POST", "/a2a/tasks/t/answer"),
            ("GET", "/state"),
            ("GET", "/board/signals"),
            ("POST", "/board/signals"),
            ("POST", "/a2a/rpc"),
            ("GET", "/metrics"),
            ("DELETE", "/a2a/artifacts/00"),
            ("GET", "/a2a/artifactsx"),
            ("GET", "/a2a/dead-letters"),
        ] {
            assert!(!may(method, path), "{method} {path}");
            assert!(check_reach(&Principal::local_user(), false, method, path).is_ok());
        }
    }

    #[test]
    fn the_process_of_an_agent_also_registers_sends_and_sees_its_tasks() {
        let brain = Principal::Brain(AgentId::parse("a-1").unwrap());
        for (method, path) in [
            ("GET", "/healthz"),
            ("PUT", "/a2a/artifacts"),
            ("PUT", "/a2a/peer"),
            ("DELETE", "/a2a/peer"),
            ("POST", "/a2a/peer/heartbeat"),
            ("GET", "/a2a/peer/turns"),
            ("POST", "/a2a/peer/lines"),
            ("POST", "/a2a/messages"),
            ("GET", "/a2a/tasks"),
            ("GET", "/a2a/tasks/t"),
            ("GET", "/a2a/tasks/t/events"),
            ("POST", "/a2a/tasks/t/cancel"),
            ("POST", "/a2a/tasks/t/answer"),
        ] {
            assert!(check_reach(&brain, true, method, path).is_ok(), "{method} {path}");
            let is_brains = ["/healthz", "/a2a/artifacts"].contains(&path);
            assert_eq!(check_reach(&brain, false, method, path).is_ok(), is_brains, "{method} {path}");
        }
        for (method, path) in [
            ("POST", "/a2a/peer/token"),
            ("GET", "/a2a/peer"),
            ("GET", "/a2a/tasks/t/trace"),
            ("POST", "/a2a/tasks/t/directives"),
            ("GET", "/a2a/dead-letters"),
            ("GET", "/state"),
            ("POST", "/board/signals"),
            ("POST", "/a2a/rpc"),
            ("GET", "/metrics"),
            ("POST", "/keys/a-1/rotate"),
        ] {
            assert!(check_reach(&brain, true, method, path).is_err(), "{method} {path}");
        }
    }

    #[test]
    fn a_new_token_of_an_agents_process_voids_the_one_before() {
        let (tokens, agent) = (IssuedTokens::default(), AgentId::parse("a-1").unwrap());
        let [first, second] = [random_token(PEER_PREFIX), random_token(PEER_PREFIX)];
        let of = |token: &str| tokens.principal(token, HERE, &PublicUrls::default(), NOW);
        tokens.set_peer(Digest::of(first.as_bytes()), agent.clone());
        assert_eq!(of(&first), Ok(Some(Principal::Brain(agent.clone()))));
        tokens.set_peer(Digest::of(second.as_bytes()), agent.clone());
        assert_eq!(of(&second), Ok(Some(Principal::Brain(agent))));
        assert_eq!(of(&first).unwrap_err().reason, Reason::Unauthenticated);
    }
}
