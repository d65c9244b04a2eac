//! The URLs under which clients reach agents through a proxy, and requests that come by them.
//!
//! A proxy may pass a request on with the path of the public URL or without it. The edge removes that path and notes the agent it
//! belongs to. Signed requests are between peers, who call the registered endpoint; they are left as they are.

use super::is_signed;
use crate::public_url::PublicUrl;
use actix_web::{HttpMessage as _, dev::ServiceRequest, http::Uri};
use protocol::ids::AgentId;

/// The public URLs of a process, and of its agents.
#[derive(Debug, Clone, Default)]
pub struct PublicUrls {
    of_agents: Vec<(PublicUrl, AgentId)>,
    of_process: Option<PublicUrl>,
}

/// The agent by whose public path a request came.
#[derive(Debug, Clone)]
pub(crate) struct AddressedAgent(pub(crate) AgentId);

impl PublicUrls {
    /// Those of `agents`, and of a process, below whose path nothing else is known of the agent.
    pub fn new(
        of_process: Option<PublicUrl>,
        agents: impl IntoIterator<Item = (PublicUrl, AgentId)>,
    ) -> Self {
        let mut of_agents: Vec<_> = agents.into_iter().collect();
        // The longest path first: it may lie below another one.
        of_agents.sort_by_key(|(url, _)| std::cmp::Reverse(url.path.len()));
        Self { of_agents, of_process }
    }

    /// Whether `authority` is a host, with its port, of one of them.
    pub(super) fn authorities(&self) -> impl Iterator<Item = &str> {
        let of_agents = self.of_agents.iter().map(|(url, _)| url);
        of_agents.chain(&self.of_process).map(|url| url.authority.as_str())
    }

    /// Their hosts.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.of_agents.iter().map(|(url, _)| url).chain(&self.of_process).map(PublicUrl::host)
    }

    /// Their texts.
    pub fn urls(&self) -> impl Iterator<Item = &str> {
        self.of_agents.iter().map(|(url, _)| url).chain(&self.of_process).map(PublicUrl::as_str)
    }

    /// Removes the public path from `request`, and notes its agent.
    pub(super) fn enter(&self, request: &mut ServiceRequest) {
        if is_signed(request) {
            return;
        }
        let path = request.path();
        let of_agent =
            self.of_agents.iter().find_map(|(url, agent)| Some((url.below(path)?, Some(agent.clone()))));
        let of_process = || Some((self.of_process.as_ref()?.below(path)?, None));
        let Some((rest, agent)) = of_agent.or_else(of_process) else { return };
        let target = match request.uri().query() {
            Some(query) => format!("{rest}?{query}"),
            None => rest.to_owned(),
        };
        // A host in the target stays: the checks of hosts and of local callers read it.
        let mut parts = request.uri().clone().into_parts();
        parts.path_and_query = target.parse().ok();
        let Ok(uri) = Uri::from_parts(parts) else { return };
        request.match_info_mut().get_mut().update(&uri);
        request.head_mut().uri = uri;
        if let Some(agent) = agent {
            request.extensions_mut().insert(AddressedAgent(agent));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::test::TestRequest;

    fn url(text: &str) -> PublicUrl {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    fn id(text: &str) -> AgentId {
        AgentId::parse(text).unwrap()
    }

    #[test]
    fn a_public_path_is_removed_and_names_its_agent() {
        let base = url("https://mesh.example/agents");
        let urls = PublicUrls::new(
            Some(base.clone()),
            [(base.of_agent(&id("a")), id("a")), (url("https://other.example/own/b"), id("b"))],
        );
        for (target, path, agent) in [
            ("/agents/a/a2a/rpc?x=1", "/a2a/rpc", Some("a")),
            ("/agents/a", "/", Some("a")),
            ("/own/b/.well-known/agent-card.json", "/.well-known/agent-card.json", Some("b")),
            ("/agents/a2a/tasks", "/a2a/tasks", None),
            ("/agents/ab/a2a/rpc", "/ab/a2a/rpc", None),
            ("/agentsa/a2a/rpc", "/agentsa/a2a/rpc", None),
            ("/a2a/rpc", "/a2a/rpc", None),
        ] {
            let mut request = TestRequest::with_uri(target).to_srv_request();
            urls.enter(&mut request);
            assert_eq!((request.path(), request.match_info().unprocessed()), (path, path), "{target}");
            let query = target.split_once('?').map(|(_, query)| query);
            assert_eq!(request.uri().query(), query);
            let found = request.extensions().get::<AddressedAgent>().map(|AddressedAgent(id)| id.to_string());
            assert_eq!(found.as_deref(), agent, "{target}");
        }
        let mut absolute =
            TestRequest::with_uri("http://evil.example/agents/a/a2a/tasks?x=1").to_srv_request();
        urls.enter(&mut absolute);
        assert_eq!(absolute.uri(), "http://evil.example/a2a/tasks?x=1", "its host is still to be checked");
        let mut signed = TestRequest::with_uri("/agents/a/a2a/messages")
            .insert_header(("signature", "x"))
            .to_srv_request();
        urls.enter(&mut signed);
        assert_eq!(signed.path(), "/agents/a/a2a/messages", "peers sign the path that they call");
    }
}
