//! What of the console is public, and who a page of the console is from.

use super::console_sessions::{ConsoleSessions, ConsoleUser, cookie_name};
use crate::{
    clock::wall_time,
    console_paths,
    http::{headers, listener::ListenerAddress},
};
use actix_web::{
    dev::ServiceRequest,
    http::{
        Method,
        header::{AUTHORIZATION, COOKIE, HeaderMap, HeaderValue, ORIGIN},
    },
};
use protocol::problem::{Problem, Reason};

/// Whether `path` belongs to the console.
pub(super) fn is_console(path: &str) -> bool {
    path == console_paths::PAGE
        || path.strip_prefix(console_paths::BASE).is_some_and(|rest| rest.starts_with('/'))
}

/// Whether everybody may make the request: for the page, which holds no data, for its files, and to sign in, which proves itself.
pub(super) fn is_public(request: &ServiceRequest) -> bool {
    let (path, method) = (request.path(), request.method());
    let is_file = path.strip_prefix(console_paths::ASSETS).is_some_and(|rest| rest.starts_with('/'));
    method.is_safe() && (path == console_paths::PAGE || is_file)
        || *method == Method::POST && path == console_paths::SESSION
}

/// Whether the body of the request may be a form. No other route takes one.
pub(super) fn takes_form(request: &ServiceRequest) -> bool {
    *request.method() == Method::POST && is_console(request.path())
}

/// Whether the body of the request may be a form with files, which may be as large as a request of A2A.
pub(super) fn takes_files(request: &ServiceRequest) -> bool {
    *request.method() == Method::POST && [console_paths::SEND, console_paths::SAY].contains(&request.path())
}

/// Whether `origin` is that of the page that `host` serves.
pub(super) fn is_own_origin(origin: &HeaderValue, host: &str) -> bool {
    let named = origin
        .to_str()
        .ok()
        .and_then(|origin| origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")));
    named.is_some_and(|named| !host.is_empty() && named.eq_ignore_ascii_case(host))
}

/// The value of the cookie of the console at `port`.
pub(crate) fn cookie(headers: &HeaderMap, port: u16) -> Option<&str> {
    let name = cookie_name(port);
    let lines = headers.get_all(COOKIE).filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find_map(|(known, value)| (known == name).then_some(value))
}

/// Who a request is from that has the key of a session; `None` if it has none, or is not for the console. Fails if the session is
/// not open, and for a change that does not come from the page itself.
pub(super) fn user(
    request: &ServiceRequest,
    sessions: &ConsoleSessions,
) -> Result<Option<ConsoleUser>, Problem> {
    if !is_console(request.path()) || is_public(request) {
        return Ok(None);
    }
    let mut keys = request.headers().get_all(&headers::CONSOLE_KEY);
    let Some(key) = keys.next() else { return Ok(None) };
    let key = key.to_str().ok().filter(|_| keys.next().is_none()).unwrap_or_default();
    let refused = |why: &str| Problem::new(Reason::Unauthenticated, why);
    let headers = request.headers();
    let has_another = [&headers::API_KEY, &AUTHORIZATION, &headers::OUTBOUND]
        .iter()
        .any(|name| headers.contains_key(*name));
    if has_another {
        return Err(refused("a page of the console proves itself by its session alone"));
    }
    if !request.method().is_safe() && !headers.contains_key(ORIGIN) {
        return Err(Problem::new(
            Reason::ForeignOrigin,
            "a change comes from the page itself, with its Origin",
        ));
    }
    let port = request.conn_data::<ListenerAddress>().map(|ListenerAddress(address)| address.port());
    let found = port.and_then(|port| sessions.find(cookie(headers, port)?, key, port, wall_time()));
    found.map(Some).ok_or_else(|| {
        refused("you are not signed in any more: `mesh console` opens the console again, or sign in with your credential")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::test::TestRequest;

    #[test]
    fn only_the_page_its_files_and_signing_in_are_public() {
        let public = |method: Method, path: &str| {
            is_public(&TestRequest::with_uri(path).method(method).to_srv_request())
        };
        for (method, path) in [
            (Method::GET, "/"),
            (Method::HEAD, "/?view=tasks"),
            (Method::GET, "/console/assets/console.js"),
            (Method::POST, "/console/session"),
        ] {
            assert!(public(method, path), "{path}");
        }
        for (method, path) in [
            (Method::POST, "/"),
            (Method::GET, "/console/view"),
            (Method::GET, "/console/session"),
            (Method::POST, "/console/assets/console.js"),
            (Method::GET, "/console/assetsx"),
            (Method::POST, "/console/links"),
            (Method::POST, "/console/answer"),
            (Method::GET, "/a2a/tasks"),
        ] {
            assert!(!public(method, path), "{path}");
        }
        assert!(!is_console("/consolex/view") && is_console("/console/view") && is_console("/"));
    }

    #[test]
    fn the_origin_of_a_page_is_its_host() {
        let own = |origin: &'static str, host: &str| is_own_origin(&HeaderValue::from_static(origin), host);
        for (origin, host) in [
            ("http://127.0.0.1:8001", "127.0.0.1:8001"),
            ("https://mesh.example", "mesh.example"),
            ("http://[::1]:8001", "[::1]:8001"),
        ] {
            assert!(own(origin, host), "{origin} {host}");
        }
        for (origin, host) in [
            ("http://127.0.0.1:9000", "127.0.0.1:8001"),
            ("http://localhost:8001", "127.0.0.1:8001"),
            ("null", "null"),
            ("http://", ""),
            ("file://127.0.0.1:8001", "127.0.0.1:8001"),
            ("http://127.0.0.1:8001.evil.example", "127.0.0.1:8001"),
            ("http://evil@127.0.0.1:8001", "127.0.0.1:8001"),
        ] {
            assert!(!own(origin, host), "{origin} {host}");
        }
    }

    #[test]
    fn the_cookie_is_that_of_the_port() {
        let request = TestRequest::default()
            .insert_header((COOKIE, "a=b; mesh-console-80=x; mesh-console-8001=yes; mesh-console-8002=no"))
            .to_srv_request();
        assert_eq!(cookie(request.headers(), 8_001), Some("yes"));
        assert_eq!(cookie(request.headers(), 1), None);
    }
}
