//! A resource that knows its methods, so that any other is answered 405 with the right `Allow`.

use crate::refusal::Refusal;
use actix_web::{HttpRequest, Resource, Route, http::Method, web};
use protocol::problem::{Problem, Reason};

/// The resource at `path`, with one route for each method: `resource(path, [(Method::GET, web::to(read))])`.
pub fn resource<const N: usize>(path: &str, routes: [(Method, Route); N]) -> Resource {
    let allow = routes.iter().map(|(method, _)| method.as_str()).collect::<Vec<_>>().join(", ");
    let others = move |request: HttpRequest| {
        let message = format!("{} is not taken here, {allow} is", request.method());
        let problem = Problem::new(Reason::MethodNotAllowed, message).with(ALLOW, &allow);
        std::future::ready(Err::<&str, _>(Refusal(problem)))
    };
    routes
        .into_iter()
        .fold(web::resource(path.to_owned()), |resource, (method, route)| {
            resource.route(route.method(method))
        })
        .default_service(web::to(others))
}

/// The member of a problem that becomes the `Allow` header.
pub(crate) const ALLOW: &str = "allow";
