use super::*;
use crate::{
    directory::test_cards::card,
    entry::{
        AgentEntry, AgentList, AgentQuery, CapabilityMatch, Heartbeat, LeaseGrant, Presence, RegistryEvent,
        SearchOrder,
    },
    http,
    registrar::{
        ChangeKey, Deregister, RecordHeartbeat, ReportSuspicion,
        tests::{Rig, identity},
    },
    registration_request::RegistrationRequest,
};
use actix_web::{App, HttpMessage, HttpServer, dev::Service, web};
use protocol::{card::Card, identity::KeyChange, ids::Capability};
use transport::http_client::HttpClientLimits;

/// The operations, as tests call them.
impl Registry {
    pub(crate) async fn find(&self, query: &AgentQuery) -> Result<Vec<AgentEntry>, Problem> {
        self.read(query.clone()).await.map(|AgentList { agents }| agents)
    }

    pub(crate) async fn get(&self, id: &AgentId) -> Result<AgentEntry, Problem> {
        self.read(GetAgent { id: id.clone() }).await
    }

    pub(crate) async fn register(&self, card: Arc<Card>, instance: String) -> Result<LeaseGrant, Problem> {
        self.call(&card.agent_id.clone(), RegistrationRequest { card, instance }).await
    }

    pub(crate) async fn heartbeat(&self, id: &AgentId, heartbeat: Heartbeat) -> Result<(), Problem> {
        self.call(id, RecordHeartbeat { id: id.clone(), heartbeat }).await
    }

    pub(crate) async fn report_suspicion(
        &self,
        by: &AgentId,
        id: &AgentId,
        incarnation: u64,
    ) -> Result<(), Problem> {
        self.call(by, ReportSuspicion { id: id.clone(), incarnation }).await
    }

    pub(crate) async fn deregister(&self, id: &AgentId, incarnation: u64) -> Result<(), Problem> {
        self.call(id, Deregister { id: id.clone(), incarnation, reason: None }).await
    }

    pub(crate) async fn change_key(
        &self,
        id: &AgentId,
        change: KeyChange,
    ) -> Result<KeyCertificate, Problem> {
        self.call(id, ChangeKey { id: id.clone(), change }).await
    }
}

/// Serves the registry of `rig` on a free port; every request has the principal `principal`.
fn serve(rig: &Rig, principal: &str) -> (String, actix_web::dev::ServerHandle) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    serve_on(listener, rig, principal)
}

fn serve_on(
    listener: std::net::TcpListener,
    rig: &Rig,
    principal: &str,
) -> (String, actix_web::dev::ServerHandle) {
    let principal: Principal = principal.to_owned().try_into().unwrap();
    let addr = rig.addr.clone();
    let server = HttpServer::new(move || {
        let principal = principal.clone();
        App::new()
            .wrap_fn(move |request, next| {
                request.extensions_mut().insert(principal.clone());
                next.call(request)
            })
            .app_data(web::Data::new(crate::registrar::SupervisedRegistry::from(addr.clone())))
            .configure(http::routes)
    })
    .workers(1)
    .disable_signals()
    .listen(listener)
    .unwrap();
    let base = format!("http://{}", server.addrs()[0]);
    let server = server.run();
    let handle = server.handle();
    actix_web::rt::spawn(server);
    (base, handle)
}

fn wire() -> HttpClient {
    HttpClient::new(None, HttpClientLimits::default()).unwrap()
}

async fn check_lifecycle(registry: &Registry) {
    let id = AgentId::parse("a").unwrap();
    let registered = registry.register(card("a", &["x", "y"]), "1".into()).await.unwrap();
    assert_eq!((registered.incarnation, registered.lease_ms, registered.heartbeat_ms), (1, 15_000, 5_000));
    let certificate = registered.certificate.as_ref().unwrap();
    assert_eq!(certificate.verify(identity("registry", 1).public()).unwrap().id(), &id);
    assert_eq!(registry.register(card("a", &["x", "y"]), "1".into()).await, Ok(registered));
    registry.heartbeat(&id, Heartbeat::new(1, 2, false)).await.unwrap();

    let capabilities = ["x", "y"].map(|c| Capability::parse(c).unwrap()).to_vec();
    let query = AgentQuery {
        capabilities,
        matching: CapabilityMatch::All,
        prefer: SearchOrder::Cheapest,
        include_dead: true,
    };
    let found = registry.find(&query).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found.first(), Some(&registry.get(&id).await.unwrap()));
    assert_eq!(found.first().map(|e| (e.state, e.running, e.accepting)), Some((Presence::Alive, 2, false)));
    let none = AgentQuery::capability(Capability::parse("z").unwrap());
    assert_eq!(registry.find(&none).await.unwrap(), []);
    let nobody = registry.get(&AgentId::parse("nobody").unwrap()).await;
    assert_eq!(nobody.unwrap_err().reason, Reason::AgentNotFound);

    let mut watch = registry.watch();
    assert_eq!(watch.next().await.unwrap(), RegistryEvent::Snapshot(found));
    let stale = Heartbeat::new(7, 0, true);
    assert_eq!(registry.heartbeat(&id, stale).await.unwrap_err().reason, Reason::AgentNotFound);
    registry.deregister(&id, 1).await.unwrap();
    let RegistryEvent::Change(gone) = watch.next().await.unwrap() else { panic!("no change") };
    assert_eq!((gone.state, gone.accepting, gone.incarnation), (Presence::Departed, false, 1));
    assert_eq!(registry.register(card("a", &[]), "2".into()).await.unwrap().incarnation, 2);
    let late = registry.deregister(&id, 1).await.unwrap_err();
    assert_eq!((late.reason, late.metadata), (Reason::StaleIncarnation, vec![("incarnation", "2".into())]));
}

#[actix_web::test]
async fn a_local_and_a_remote_registry_give_the_same_answers() {
    check_lifecycle(&Rig::new().registry).await;
    let rig = Rig::new();
    let (base, server) = serve(&rig, "agent:a");
    check_lifecycle(&Registry::remote(&base, wire())).await;
    server.stop(false).await;
}

#[actix_web::test]
async fn a_user_may_read_but_not_register_and_invalid_queries_are_explained() {
    let rig = Rig::new();
    let (base, server) = serve(&rig, "user:local");
    let registry = Registry::remote(&base, wire());
    assert_eq!(registry.find(&AgentQuery::default()).await, Ok(vec![]));
    let refused = registry.register(card("a", &[]), "1".into()).await.unwrap_err();
    assert_eq!(refused.reason, Reason::Forbidden);
    for (path, expected) in [
        ("/registry/agents?prefer=best", "least-loaded"),
        ("/registry/agents?capability=..", "capability"),
        ("/registry/agents/%2e%2e%2f", "agent id"),
    ] {
        let url = format!("{base}{path}");
        let refused =
            wire().bytes(transport::http_client::ClientRequest::get(&url, "registry")).await.unwrap_err();
        assert_eq!(refused.reason, Reason::InvalidField, "{path}");
        assert!(refused.message.contains(expected), "{refused}");
    }
    let url = format!("{base}/registry/agents");
    let call = transport::http_client::ClientRequest::new(reqwest::Method::PATCH, &url, "registry");
    assert_eq!(wire().bytes(call).await.unwrap_err().reason, Reason::MethodNotAllowed);
    server.stop(false).await;
}

#[actix_web::test]
async fn a_card_that_does_not_fit_is_explained_to_an_agent_and_not_read_for_a_user() {
    let rig = Rig::new();
    for (principal, reason, expected) in
        [("user:local", Reason::Forbidden, "only agents"), ("agent:a", Reason::InvalidField, "card.agentId")]
    {
        let (base, server) = serve(&rig, principal);
        let body = bytes::Bytes::from_static(br#"{"card":{"agentId":"a/b"},"instance":"1"}"#);
        let url = format!("{base}/registry/agents");
        let call = transport::http_client::ClientRequest::post(&url, "registry", body);
        let refused = wire().bytes(call).await.unwrap_err();
        assert_eq!(refused.reason, reason, "{refused}");
        assert!(refused.message.contains(expected), "{refused}");
        server.stop(false).await;
    }
}

#[actix_web::test]
async fn a_watch_survives_a_restart_of_the_registry_and_gets_a_new_snapshot() {
    let rig = Rig::new();
    let (base, server) = serve(&rig, "agent:a");
    let registry = Registry::remote(&base, wire());
    let mut watch = registry.watch();
    assert_eq!(watch.next().await.unwrap(), RegistryEvent::Snapshot(vec![]));
    server.stop(false).await;
    assert_eq!(watch.next().await.unwrap_err().reason, Reason::RegistryUnavailable);
    assert_eq!(registry.find(&AgentQuery::default()).await.unwrap_err().reason, Reason::RegistryUnavailable);
    assert_eq!(watch.next().await.unwrap_err().reason, Reason::RegistryUnavailable);

    rig.registry.register(card("a", &[]), "1".into()).await.unwrap();
    let listener = std::net::TcpListener::bind(base.trim_start_matches("http://")).unwrap();
    let (_, server) = serve_on(listener, &rig, "agent:a");
    let snapshot = loop {
        if let Ok(event) = watch.next().await {
            break event;
        }
    };
    assert!(matches!(snapshot, RegistryEvent::Snapshot(agents) if agents.len() == 1));
    server.stop(false).await;
}

/// A registry whose store takes no changes.
struct ReadOnly<S>(S);

impl<O: Operation, S: crate::client::Service<O>> crate::client::Service<O> for ReadOnly<S> {
    async fn call(&self, by: &Caller, operation: O) -> Result<O::Answer, Problem> {
        match O::INFO.method {
            "GET" => self.0.call(by, operation).await,
            _ => Err(Problem::new(Reason::StoreUnavailable, "it takes no changes")),
        }
    }
}

/// Asks whatever answers for the registry, and tries to register there.
async fn ask<S>(service: &S) -> (usize, Reason)
where
    S: crate::client::Service<AgentQuery> + crate::client::Service<RegistrationRequest>,
{
    let by = Caller::agent(&AgentId::parse("b").unwrap());
    let AgentList { agents } = service.call(&by, AgentQuery::default()).await.unwrap();
    let request = RegistrationRequest { card: card("b", &[]), instance: "1".into() };
    (agents.len(), service.call(&by, request).await.unwrap_err().reason)
}

#[actix_web::test]
async fn a_wrapper_of_either_registry_is_called_like_both() {
    let rig = Rig::new();
    let (base, server) = serve(&rig, "agent:a");
    rig.registry.register(card("a", &[]), "1".into()).await.unwrap();
    let expected = (1, Reason::StoreUnavailable);
    assert_eq!(ask(&ReadOnly(rig.registry.clone())).await, expected);
    assert_eq!(ask(&ReadOnly(Registry::remote(&base, wire()))).await, expected);
    server.stop(false).await;
}
