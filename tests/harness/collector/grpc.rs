//! The backend over gRPC.

use super::{CollectorBehavior, CollectorState, accept, arrived};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use hyper::{HeaderMap, Request, Response, body::Incoming, header::HeaderValue, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::{
    convert::Infallible,
    io::Read,
    net::TcpStream,
    sync::{Arc, Mutex},
};
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// Serves one connection on this thread.
pub(super) fn serve(
    stream: TcpStream,
    tls: Option<Arc<rustls::ServerConfig>>,
    state: &Arc<Mutex<CollectorState>>,
    behavior: &Arc<Mutex<CollectorBehavior>>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        stream.set_nonblocking(true).unwrap();
        let stream = tokio::net::TcpStream::from_std(stream).unwrap();
        match tls {
            None => connection(stream, state, behavior).await,
            Some(config) => {
                if let Ok(stream) = tokio_rustls::TlsAcceptor::from(config).accept(stream).await {
                    connection(stream, state, behavior).await;
                }
            }
        }
    });
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    state: &Arc<Mutex<CollectorState>>,
    behavior: &Arc<Mutex<CollectorBehavior>>,
) {
    let service = service_fn(|request| answer(request, state.clone(), behavior.clone()));
    let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    request: Request<Incoming>,
    state: Arc<Mutex<CollectorState>>,
    behavior: Arc<Mutex<CollectorBehavior>>,
) -> Result<Answer, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let path = head.uri.path().to_owned();
    let behavior = arrived(&path, &state, &behavior);
    Ok(match behavior {
        CollectorBehavior::Hangs => std::future::pending().await,
        CollectorBehavior::Refuses => failed(Status::invalid_argument("says the canary")),
        CollectorBehavior::IsNotThere => failed(Status::unimplemented("unknown service")),
        CollectorBehavior::Busy(_, _, 0) => failed(Status::unavailable("busy")),
        CollectorBehavior::Busy(_, _, seconds) => {
            let pause = std::time::Duration::from_secs(seconds);
            let details = ErrorDetails::with_retry_info(Some(pause));
            failed(Status::with_error_details(Code::ResourceExhausted, "busy", details))
        }
        CollectorBehavior::AcceptsUpTo(most) if body.len() > most => {
            let text = format!("grpc: received message larger than max ({} vs. {most})", body.len());
            failed(Status::resource_exhausted(text))
        }
        CollectorBehavior::Accepts
        | CollectorBehavior::TakesTracesOnly
        | CollectorBehavior::RejectsSome(_)
        | CollectorBehavior::AcceptsUpTo(_) => {
            assert_eq!(head.headers["content-type"], "application/grpc");
            let lines =
                head.headers.iter().map(|(name, value)| format!("{name}: {}\r\n", value.to_str().unwrap()));
            let lines = lines.collect::<String>().to_lowercase();
            let mut message = body[5..].to_vec();
            assert_eq!(u32::from_be_bytes(body[1..5].try_into().unwrap()) as usize, message.len());
            if body[0] == 1 {
                assert_eq!(head.headers["grpc-encoding"], "gzip");
                let packed = std::mem::take(&mut message);
                flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut message).unwrap();
            }
            let message = accept(
                &path,
                &message,
                format!("POST {} http/2\r\n{lines}", head.uri.path()),
                &state,
                behavior,
            );
            let mut framed = vec![0];
            framed.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
            framed.extend(message);
            let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), HeaderValue::from(0))]);
            let body = Full::new(Bytes::from(framed)).with_trailers(async { Some(Ok(trailers)) });
            let mut answer = Response::new(body.boxed());
            answer.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
            answer
        }
    })
}

/// A status without a message, in the head.
fn failed(status: Status) -> Answer {
    status.into_http::<Full<Bytes>>().map(|body| body.boxed())
}
