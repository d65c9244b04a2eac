//! Requests of web pages from the origins that the configuration lists (the CORS protocol of the Fetch standard).

use super::origin::BrowserOrigin;
use actix_web::{
    Error, HttpResponse, ResponseError,
    body::BoxBody,
    dev::{ServiceRequest, ServiceResponse},
    http::{
        Method, StatusCode,
        header::{
            ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
            ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
            ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderValue, ORIGIN, VARY,
        },
    },
};
use std::fmt;

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");
/// How long a browser may remember a preflight, seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// The listed origin of a request, which may read the answer.
pub(super) struct CrossOrigin(HeaderValue);

impl CrossOrigin {
    /// The one origin of `request`, if `listed` has it.
    pub(super) fn of(request: &ServiceRequest, listed: &[BrowserOrigin]) -> Option<Self> {
        let mut origins = request.headers().get_all(ORIGIN);
        let (Some(origin), None) = (origins.next(), origins.next()) else { return None };
        listed.iter().any(|listed| listed.is(origin)).then(|| Self(origin.clone()))
    }

    /// `answer` with the headers that let the page read it.
    pub(super) fn apply(
        self,
        answer: Result<ServiceResponse<BoxBody>, Error>,
    ) -> Result<ServiceResponse<BoxBody>, Error> {
        match answer {
            Ok(mut answer) => {
                self.allow(answer.headers_mut());
                Ok(answer)
            }
            Err(error) => Err(ReadableError { error, origin: self }.into()),
        }
    }

    fn allow(&self, headers: &mut HeaderMap) {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, self.0.clone());
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
        headers.append(VARY, HeaderValue::from_static("Origin"));
    }
}

/// The answer to a preflight, which has no credential: what a page may send. `None` if `request` is none.
pub(super) fn preflight(request: &ServiceRequest) -> Option<HttpResponse> {
    let headers = request.headers();
    let is_preflight = *request.method() == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let mut answer = is_preflight.then(|| HttpResponse::NoContent().finish())?;
    let allowed = answer.headers_mut();
    allowed.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    if let Some(asked) = headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        allowed.insert(ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
    }
    allowed.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    allowed.append(VARY, HeaderValue::from_static("Access-Control-Request-Headers"));
    Some(answer)
}

struct ReadableError {
    error: Error,
    origin: CrossOrigin,
}

impl fmt::Debug for ReadableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl fmt::Display for ReadableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl ResponseError for ReadableError {
    fn status_code(&self) -> StatusCode {
        self.error.as_response_error().status_code()
    }

    fn error_response(&self) -> HttpResponse {
        let mut answer = self.error.error_response();
        self.origin.allow(answer.headers_mut());
        answer
    }
}
