//! The console: a page at `/`, its views, what a person does there, and the stream of changes. The HTML is made in the crate
//! `console`; every view reads by the functions behind the other routes, and shows what those would.
//!
//! In reading order: `page` has what is public, `sign_in` makes sessions, `scope` says whose agents a port shows, `views` collects
//! the data of each view, `actions` performs forms, `stream` tells what has changed.

mod actions;
mod agent_views;
mod answer_values;
mod board_view;
mod brief_view;
mod chat_view;
mod cost_view;
mod elsewhere;
mod entry_actions;
mod file_view;
mod health_view;
mod inbox_view;
mod page;
mod scope;
mod session_view;
mod sign_in;
mod space_view;
mod start_view;
mod stream;
mod task_commands;
mod task_history;
mod task_list;
mod task_verb;
mod task_view;
mod viewer_board;
mod views;

use crate::console_paths;
use actix_web::{
    HttpResponse, HttpResponseBuilder,
    http::{Method, header, header::HeaderName},
    web,
};
use transport::resource::resource;

/// What a page of the console may load, run and be framed by.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The routes of the console.
pub fn routes(config: &mut web::ServiceConfig) {
    let post = |name: &str| format!("{}/{name}", console_paths::BASE);
    config
        .service(resource(console_paths::PAGE, [(Method::GET, web::to(page::get))]))
        .service(resource(
            &format!("{}/{{name}}", console_paths::ASSETS),
            [(Method::GET, web::to(page::asset))],
        ))
        .service(resource(console_paths::SESSION, [(Method::POST, web::to(sign_in::post))]))
        .service(resource(console_paths::LINKS, [(Method::POST, web::to(sign_in::link))]))
        .service(resource(console_paths::SESSIONS, [(Method::DELETE, web::to(sign_in::revoke))]))
        .service(resource(&post("sign-out"), [(Method::POST, web::to(sign_in::sign_out))]))
        .service(resource(&post("view"), [(Method::GET, web::to(views::get))]))
        .service(resource(&post("file"), [(Method::GET, web::to(file_view::get))]))
        .service(resource(&post("stream"), [(Method::GET, web::to(stream::get))]))
        .service(resource(console_paths::SEND, [(Method::POST, web::to(actions::send))]))
        .service(resource(console_paths::SAY, [(Method::POST, web::to(actions::say))]))
        .service(resource(&post("entry"), [(Method::POST, web::to(entry_actions::change))]))
        .service(resource(&post("post"), [(Method::POST, web::to(entry_actions::post))]))
        .service(resource(&post("redrive"), [(Method::POST, web::to(actions::redrive))]))
        .service(resource(&post("steer"), [(Method::POST, web::to(actions::steer))]))
        .service(resource(&post("answer"), [(Method::POST, web::to(actions::answer))]))
        .service(resource(&post("elsewhere"), [(Method::POST, web::to(actions::elsewhere))]))
        .service(resource(&post("bulk"), [(Method::POST, web::to(actions::bulk))]))
        .service(resource(&post("cancel"), [(Method::POST, web::to(actions::cancel))]))
        .service(resource(&post("retry"), [(Method::POST, web::to(actions::retry))]));
}

/// The headers of every answer of the console.
fn secured(mut answer: HttpResponseBuilder) -> HttpResponseBuilder {
    answer
        .insert_header((header::CONTENT_SECURITY_POLICY, POLICY))
        .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .insert_header((header::REFERRER_POLICY, "same-origin"))
        .insert_header((HeaderName::from_static("cross-origin-opener-policy"), "same-origin"))
        .insert_header((HeaderName::from_static("cross-origin-resource-policy"), "same-origin"));
    answer
}

/// A page or a view, which nobody keeps.
fn html(markup: String) -> HttpResponse {
    secured(HttpResponse::Ok())
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .insert_header((header::VARY, "Accept"))
        .content_type("text/html; charset=utf-8")
        .body(markup)
}
