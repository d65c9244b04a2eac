//! gRPC behind TLS: a proxy in front of the port speaks TLS, and callers verify its certificate by their roots.

use super::{
    foreign::{able, forecast_of, grpc_card},
    *,
};
use crate::harness::{
    Agent, artifact,
    foreign::{ForeignAgent, ForeignBehavior, skill},
    message as said_of, state as state_of,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

fn file(name: &str) -> String {
    format!("{}/../tests/harness/tls/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Starts a proxy that speaks TLS and HTTP/2 and forwards to `target`; returns its address.
async fn proxy(target: String) -> String {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versioned =
        rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let shown = vec![CertificateDer::from_pem_file(file("server.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(file("server.key")).unwrap();
    let mut config = versioned.unwrap().with_no_client_auth().with_single_cert(shown, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (acceptor, target) = (acceptor.clone(), target.clone());
            tokio::spawn(async move {
                let Ok(mut caller) = acceptor.accept(socket).await else { return };
                let mut agent = TcpStream::connect(target).await.unwrap();
                drop(tokio::io::copy_bidirectional(&mut caller, &mut agent).await);
            });
        }
    });
    format!("https://{address}")
}

/// A mesh with a foreign gRPC agent at `url`, with these environment variables.
async fn mesh_with(url: &str, environment: &[String]) -> (ForeignAgent, Process, Agent) {
    let skill = skill("get_forecast", "Weather forecast", &["weather"], &["Will it rain?"]);
    let card = ForeignAgent::start("WeatherBot", skill, grpc_card(url), ForeignBehavior::Never).await;
    let team = format!(
        "
mesh: {{ outside: {{ allow: [127.0.0.0/8] }} }}
agents:
  - {{ agent: desk-01, skills: [desk], brain: {{ echo: {{}} }} }}
  - {{ agent: weather-bot, brain: {{ a2a: {{ card: '{}', credentials: {{ key: alices-own-key-0001 }}, bounds: {{ attempts: 2 }} }} }} }}
",
        card.url
    );
    let mesh = Process::up_in(environment, &team).await;
    let desk = mesh.agent("desk-01");
    (card, mesh, desk)
}

#[actix::test]
async fn a_proxy_adds_tls_to_the_port_and_passes_streams() {
    let agent = able(TEAM, SCRIPT).await;
    let url = proxy(port(&agent)).await;
    let trusting = [format!("SSL_CERT_FILE={}", file("ca.pem"))];
    let (_card, _mesh, desk) = mesh_with(&url, &trusting).await;
    let task = desk.ask(forecast_of("Tomorrow in Bern")).await;
    assert_eq!(artifact(&task, "a.txt").as_deref(), Some("made"), "{task:#}");
    let task = desk.ask(forecast_of("slowly")).await;
    assert_eq!((state_of(&task).as_str(), said_of(&task).as_str()), ("completed", "done"));
}

#[actix::test]
async fn an_untrusted_certificate_is_refused() {
    let agent = able(TEAM, SCRIPT).await;
    let url = proxy(port(&agent)).await;
    let (_card, _mesh, desk) = mesh_with(&url, &[]).await;
    let task = desk.ask(forecast_of("Tomorrow in Bern")).await;
    assert_eq!(state_of(&task), "failed", "{task:#}");
    assert!(said_of(&task).contains("certificate"), "{}", said_of(&task));
    let theirs = stub(&agent).list_tasks(as_alice(wire::ListTasksRequest::default())).await.unwrap();
    assert!(theirs.into_inner().tasks.is_empty(), "nothing was said to it");
}
