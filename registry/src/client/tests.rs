use super::*;
use crate::{
    directory::test_cards::card,
    entry::{CapabilityMatch, Presence, RegistryEvent, SearchOrder},
    http,
    registrar::tests::{Rig, identity},
};
use actix_web::{App, HttpMessage, HttpServer, dev::Service, web};
use blackboard::http_client::HttpClientLimits;
use protocol::{ids::Capability, problem::Reason};

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
    registry.heartbeat(&id, Heartbeat { incarnation: 1, running: 2, accepting: false }).await.unwrap();

    let capabilities = ["x", "y"].map(|c| Capability::parse(c).unwrap()).to_vec();
    let query = AgentQuery {
        capabilities,
        matching: CapabilityMatch::All,
        prefer: SearchOrder::Cheapest,
        include_dead: true,
    };
    let found = registry.find(&query).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found.first(), registry.get(&id).await.unwrap().as_ref());
    assert_eq!(found.first().map(|e| (e.state, e.running, e.accepting)), Some((Presence::Alive, 2, false)));
    let none = AgentQuery::capability(Capability::parse("z").unwrap());
    assert_eq!(registry.find(&none).await.unwrap(), []);
    assert_eq!(registry.get(&AgentId::parse("nobody").unwrap()).await, Ok(None));

    let mut watch = registry.watch();
    assert_eq!(watch.next().await.unwrap(), RegistryEvent::Snapshot(found));
    let stale = Heartbeat { incarnation: 7, running: 0, accepting: true };
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
            wire().bytes(blackboard::http_client::ClientRequest::get(&url, "registry")).await.unwrap_err();
        assert_eq!(refused.reason, Reason::InvalidField, "{path}");
        assert!(refused.message.contains(expected), "{refused}");
    }
    let (url, body) = (format!("{base}/registry/agents"), br#"{"card":{"agentId":"a/b"},"instance":"1"}"#);
    let call =
        blackboard::http_client::ClientRequest::post(&url, "registry", bytes::Bytes::from_static(body));
    let refused = wire().bytes(call).await.unwrap_err();
    assert!(refused.message.contains("card.agentId"), "{refused}");
    let call = blackboard::http_client::ClientRequest::new(reqwest::Method::PATCH, &url, "registry");
    assert_eq!(wire().bytes(call).await.unwrap_err().reason, Reason::MethodNotAllowed);
    server.stop(false).await;
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
