//! A resource that answers 405 with the right `Allow` to every method that it does not have.

use crate::refusal::{ALLOW, Refusal};
use actix_web::{App, HttpRequest, Resource, Route, guard, http::Method, web};
use protocol::problem::{Problem, Reason};
use std::cell::RefCell;

/// A method of a path of a router.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RegisteredRoute {
    /// The path, with `{name}` for a parameter.
    pub path: String,
    /// The method. GET serves HEAD, too.
    pub method: String,
}

thread_local! {
    /// What [`resource`] has made while [`registered`] runs.
    static REGISTERED: RefCell<Option<Vec<RegisteredRoute>>> = const { RefCell::new(None) };
}

/// The routes that `configure` makes by [`resource`].
pub fn registered(configure: impl FnOnce(&mut web::ServiceConfig)) -> Vec<RegisteredRoute> {
    REGISTERED.set(Some(Vec::new()));
    drop(App::new().configure(configure));
    REGISTERED.take().unwrap_or_default()
}

/// The resource at `path`, with one route for each method: `resource(path, [(Method::GET, web::to(read))])`. GET
/// serves HEAD too; the edge omits the body (RFC 9110 §9.3.2).
pub fn resource<const N: usize>(path: &str, routes: [(Method, Route); N]) -> Resource {
    resource_of(path, Vec::from(routes))
}

/// As [`resource`].
pub(crate) fn resource_of(path: &str, routes: Vec<(Method, Route)>) -> Resource {
    REGISTERED.with_borrow_mut(|registered| {
        let all = routes.iter().map(|(method, _)| (path.to_owned(), method.to_string()));
        registered.iter_mut().for_each(|known| {
            known.extend(all.clone().map(|(path, method)| RegisteredRoute { path, method }));
        });
    });
    let with_head =
        |method: &Method| if method == Method::GET { "GET, HEAD" } else { method.as_str() }.to_owned();
    let allow = routes.iter().map(|(method, _)| with_head(method)).collect::<Vec<_>>().join(", ");
    let not_allowed = move |request: HttpRequest| {
        let message = format!("{} is not taken here, {allow} is", request.method());
        let problem = Problem::new(Reason::MethodNotAllowed, message).with(ALLOW, &allow);
        std::future::ready(Err::<&str, _>(Refusal(problem)))
    };
    routes
        .into_iter()
        .fold(web::resource(path.to_owned()), |resource, (method, route)| {
            resource.route(match method == Method::GET {
                true => route.guard(guard::Any(guard::Get()).or(guard::Head())),
                false => route.method(method),
            })
        })
        .default_service(web::to(not_allowed))
}
