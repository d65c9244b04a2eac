//! The route of every operation.

use super::{Caller, Operation, OperationInfo, Service};
use crate::{refusal::Refusal, resource::resource_of};
use actix_web::{
    HttpMessage as _, HttpRequest, HttpResponse, Route,
    http::{Method, StatusCode},
    web,
};
use protocol::{
    json::{self, MAX_DEPTH},
    principal::{Principal, SenderProof},
    problem::{Problem, Reason},
};
use serde_json::Value;
use std::collections::BTreeMap;

/// The routes of the operations of a service, which handlers find as `web::Data`. They need the edge's [`Principal`], its proof and the
/// whole body.
#[derive(Default)]
pub struct OperationRoutes(BTreeMap<&'static str, Vec<(Method, Route)>>);

impl OperationRoutes {
    /// With the route of `O`, which `S` answers.
    #[must_use]
    pub fn with<S: Service<O> + 'static, O: Operation>(mut self) -> Self {
        let OperationInfo { method, path, .. } = O::INFO;
        let method = Method::from_bytes(method.as_bytes()).unwrap_or_default();
        self.0.entry(path).or_default().push((method, web::to(perform::<S, O>)));
        self
    }

    /// With another route, such as one of a stream.
    #[must_use]
    pub fn and(mut self, path: &'static str, method: Method, route: Route) -> Self {
        self.0.entry(path).or_default().push((method, route));
        self
    }

    /// Adds all to `config`.
    pub fn configure(self, config: &mut web::ServiceConfig) {
        for (path, routes) in self.0 {
            config.service(resource_of(path, routes));
        }
    }
}

async fn perform<S: Service<O> + 'static, O: Operation>(
    service: web::Data<S>,
    by: web::ReqData<Principal>,
    request: HttpRequest,
    body: web::Bytes,
) -> Result<HttpResponse, Refusal> {
    O::INFO.who.check(&by)?;
    let proof = request.extensions().get::<SenderProof>().copied().unwrap_or(SenderProof::Address);
    let by = Caller { principal: by.into_inner(), proof, root: None };
    let answer = service.call(&by, read::<O>(&request, &body)?).await?;
    let status = StatusCode::from_u16(O::INFO.status).unwrap_or(StatusCode::OK);
    let mut response = HttpResponse::build(status);
    Ok(if status == StatusCode::NO_CONTENT { response.finish() } else { response.json(answer) })
}

/// The operation in a request.
fn read<O: Operation>(request: &HttpRequest, body: &[u8]) -> Result<O, Problem> {
    let invalid = |message: String| Problem::new(Reason::InvalidField, message);
    let in_path = request.match_info().iter();
    if [Method::GET, Method::DELETE].contains(request.method()) || request.method() == Method::HEAD {
        let in_path: Vec<_> = in_path.collect();
        let in_path = serde_html_form::to_string(&in_path).map_err(|error| invalid(error.to_string()))?;
        let form = format!("{in_path}&{}", request.query_string());
        return serde_html_form::from_str(&form).map_err(|error| invalid(format!("the query: {error}")));
    }
    let mut members = json::parse_object(body, MAX_DEPTH)?;
    members.extend(in_path.map(|(name, value)| (name.to_owned(), Value::from(value))));
    serde_path_to_error::deserialize(Value::Object(members)).map_err(|error| invalid(error.to_string()))
}
