use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

struct Server {
    port: u16,
    calls: Arc<AtomicUsize>,
}

/// Answers every connection with `head`, then `piece` `times` times.
async fn server(head: String, piece: &'static [u8], times: usize) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            let head = head.clone();
            tokio::spawn(async move {
                let mut request = [0; 4096];
                let _ = socket.read(&mut request).await;
                let _ = socket.write_all(head.as_bytes()).await;
                for _ in 0..times {
                    if socket.write_all(piece).await.is_err() {
                        return;
                    }
                }
                // A stream stays open until the other side closes it.
                let _ = socket.read(&mut request).await;
            });
        }
    });
    Server { port, calls }
}

fn allowing(nets: &[&str]) -> OutboundClient {
    let allow = nets.iter().map(|net| net.parse().unwrap()).collect();
    let limits = OutboundLimits {
        connect: Duration::from_secs(2),
        response: Duration::from_millis(400),
        idle: Duration::from_millis(200),
        max_bytes: 1_000,
        max_stream_bytes: 50_000,
        ..OutboundLimits::default()
    };
    OutboundClient::new(AddressPolicy { allow }, limits).unwrap()
}

fn get(url: String) -> OutboundRequest {
    OutboundRequest::new(Method::GET, url)
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn a_loopback_address_is_refused_without_a_request_unless_its_network_is_allowed() {
    let server = server(OK.to_owned(), b"hi", 1).await;
    let names = ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0x7f.1", "2130706433"];
    for scheme in ["http", "https"] {
        for name in names {
            let url = format!("{scheme}://{name}:{}/", server.port);
            let error = allowing(&[]).send(get(url.clone())).await.unwrap_err();
            assert!(
                matches!(&error, Error::AddressRefused(why) if why.contains("loopback")),
                "{url}: {error:?}"
            );
        }
    }
    assert_eq!(server.calls.load(Ordering::SeqCst), 0);
    let client = allowing(&["127.0.0.0/8"]);
    for name in names.into_iter().filter(|name| !name.contains("ffff")) {
        let answer = client.send(get(format!("http://{name}:{}/", server.port))).await.unwrap();
        assert_eq!(answer.body, "hi", "{name}");
    }
}

#[tokio::test]
async fn a_public_address_is_not_called_without_tls() {
    let error = allowing(&["127.0.0.0/8"]).send(get("http://1.1.1.1/".into())).await.unwrap_err();
    assert!(matches!(&error, Error::AddressRefused(why) if why.contains("https only")), "{error:?}");
}

#[tokio::test]
async fn urls_of_other_schemes_or_with_credentials_are_refused() {
    let client = allowing(&["127.0.0.0/8"]);
    for url in
        ["file:///etc/passwd", "ftp://example.org/", "http://user:word@127.0.0.1/", "nonsense", "unix:/x"]
    {
        let error = client.send(get(url.into())).await.unwrap_err();
        assert!(matches!(&error, Error::BadUrl(why) if !why.contains("word@")), "{url}: {error:?}");
    }
}

#[tokio::test]
async fn a_redirect_is_returned_and_not_followed() {
    let inner = server(OK.to_owned(), b"no", 1).await;
    let head = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:{}/\r\ncontent-length: 0\r\n\r\n",
        inner.port
    );
    let outer = server(head, b"", 0).await;
    let answer =
        allowing(&["127.0.0.0/8"]).send(get(format!("http://127.0.0.1:{}/", outer.port))).await.unwrap();
    assert_eq!(answer.status, 307);
    assert_eq!(inner.calls.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_response_that_is_too_long_or_too_late_is_an_error() {
    let client = allowing(&["127.0.0.0/8"]);
    let call = |port| client.send(get(format!("http://127.0.0.1:{port}/")));
    let long = server("HTTP/1.1 200 OK\r\ncontent-length: 1001\r\n\r\n".into(), b"", 0).await;
    assert_eq!(call(long.port).await.unwrap_err(), Error::TooLarge(1_000));
    let endless = server("HTTP/1.1 200 OK\r\n\r\n".into(), &[b'x'; 512], 1 << 20).await;
    assert_eq!(call(endless.port).await.unwrap_err(), Error::TooLarge(1_000));
    let silent = server("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n".into(), b"", 0).await;
    assert!(matches!(call(silent.port).await.unwrap_err(), Error::Unreachable(_)));
}

#[tokio::test]
async fn a_stream_ends_after_silence_or_at_its_limit() {
    let client = allowing(&["127.0.0.0/8"]);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    for (piece, times, end) in [
        (&b"data: 1\n\n"[..], 3, Error::Unreachable("the stream fell silent".into())),
        (&[b'x'; 512][..], 1 << 20, Error::TooLarge(50_000)),
    ] {
        let server = server(head.to_owned(), piece, times).await;
        let StreamOrResponse::Stream(stream) =
            client.stream(get(format!("http://127.0.0.1:{}/", server.port))).await.unwrap()
        else {
            panic!("no stream")
        };
        let read: Vec<_> = stream.collect().await;
        let (last, before) = read.split_last().unwrap();
        assert_eq!(last, &Err(end));
        assert!(!before.is_empty() && before.iter().all(Result::is_ok));
    }
    let plain = server(OK.to_owned(), b"hi", 1).await;
    match client.stream(get(format!("http://127.0.0.1:{}/", plain.port))).await.unwrap() {
        StreamOrResponse::Response(answer) => assert_eq!(answer.body, "hi"),
        StreamOrResponse::Stream(_) => panic!("a stream"),
    }
}

#[test]
fn the_default_limits_are_the_declared_ones() {
    let limits = Limits { max_artifact_bytes: 1 << 20, ..Limits::default() };
    let declared = protocol::a2a::limits::declared(&limits);
    let bounds = OutboundLimits::for_node(&limits);
    for (name, bound) in [
        ("maxForeignAnswerBytes", bounds.max_bytes),
        ("maxForeignStreamBytes", bounds.max_stream_bytes),
        ("maxForeignTaskBytes", bounds.max_task_bytes),
    ] {
        assert_eq!(declared[name], bound, "{name}");
    }
}

#[tokio::test]
async fn a_name_is_resolved_and_its_addresses_are_checked() {
    let client = allowing(&[]);
    let refused = client.check_resolved("http://localhost:9/hook").await.unwrap_err();
    assert!(matches!(refused, Error::AddressRefused(_)), "{refused:?}");
    let message = refused.to_string();
    assert!(
        message.contains("localhost leads to") && message.contains("loopback") && message.contains("allow"),
        "{message}"
    );
    assert!(matches!(client.check_resolved("https://10.0.0.1/").await, Err(Error::AddressRefused(_))));
    assert_eq!(
        client.check_resolved("https://no-such-name.invalid/").await,
        Ok(()),
        "it may exist when it is called"
    );
    assert_eq!(allowing(&["127.0.0.0/8", "::1"]).check_resolved("http://localhost:9/hook").await, Ok(()));
}

#[tokio::test]
async fn a_port_that_is_not_of_https_must_be_named() {
    let error = allowing(&[]).send(get("https://1.1.1.1:22/".into())).await.unwrap_err();
    assert!(
        matches!(&error, Error::AddressRefused(why) if why.contains("ports 443 and 8443 only, not at 22") && why.contains("outside")),
        "{error:?}"
    );
    assert_eq!(allowing(&["*:22"]).check("https://1.1.1.1:22/"), Ok(()));
    for port in [443, 8443] {
        assert_eq!(allowing(&[]).check(&format!("https://1.1.1.1:{port}/")), Ok(()));
    }
    // By name, so that the resolver decides; the same client calls both.
    let (named, other) = (server(OK.to_owned(), b"hi", 1).await, server(OK.to_owned(), b"no", 1).await);
    let client = allowing(&[&format!("127.0.0.1:{}", named.port), &format!("[::1]:{}", named.port)]);
    let call = |port| client.send(get(format!("http://localhost:{port}/")));
    assert_eq!(call(named.port).await.unwrap().body, "hi");
    let error = call(other.port).await.unwrap_err();
    assert!(matches!(&error, Error::AddressRefused(why) if why.contains("loopback")), "{error:?}");
    assert_eq!(call(named.port).await.unwrap().body, "hi");
    assert_eq!(other.calls.load(Ordering::SeqCst), 0);
}
