//! The mesh's own routes, one file per resource. A handler translates the request, makes one call, translates the result.

pub mod artifacts;
pub mod brief;
pub mod contexts;
pub mod costs;
pub mod dead_letters;
pub mod health;
pub mod hooks;
pub mod inbox;
pub mod join;
pub mod keys;
pub mod logins;
pub mod messages;
pub mod metrics;
pub mod peer;
pub mod person_token;
pub mod schedules;
pub(in crate::http) mod task_requests;
pub mod tasks;
pub mod tools;
pub mod traces;
pub mod triggers;

use actix_web::web;
use protocol::{
    problem::{Problem, Reason},
    routes,
};
use transport::resource::resource;

/// The route of messages.
pub fn messages(config: &mut web::ServiceConfig) {
    config.service(resource(routes::MESSAGES, [(actix_web::http::Method::POST, web::to(messages::post))]));
}

/// The other routes of a node with agents.
pub fn agents(config: &mut web::ServiceConfig) {
    use actix_web::http::Method;
    let tasks = routes::TASKS;
    let dead_letters = routes::DEAD_LETTERS;
    config
        .service(resource(&format!("{}/{{id}}", routes::MESSAGES), [(Method::GET, web::to(messages::get))]))
        .service(resource(routes::COSTS, [(Method::GET, web::to(costs::get))]))
        .service(resource(routes::CONTEXTS, [(Method::GET, web::to(contexts::list))]))
        .service(resource(
            &format!("{}/{{id}}", routes::CONTEXTS),
            [(Method::GET, web::to(contexts::get)), (Method::DELETE, web::to(contexts::forget))],
        ))
        .service(resource(
            &format!("{}/{{id}}/handover", routes::CONTEXTS),
            [(Method::DELETE, web::to(contexts::take_back))],
        ))
        .service(resource(
            routes::SCHEDULES,
            [(Method::GET, web::to(schedules::list)), (Method::POST, web::to(schedules::add))],
        ))
        .service(resource(
            &format!("{}/{{name}}", routes::SCHEDULES),
            [(Method::GET, web::to(schedules::get)), (Method::DELETE, web::to(schedules::remove))],
        ))
        .service(resource(
            &format!("{}/{{name}}/pause", routes::SCHEDULES),
            [(Method::POST, web::to(schedules::pause))],
        ))
        .service(resource(
            &format!("{}/{{name}}/resume", routes::SCHEDULES),
            [(Method::POST, web::to(schedules::resume))],
        ))
        .service(resource(
            &format!("{}/{{name}}/run", routes::SCHEDULES),
            [(Method::POST, web::to(schedules::run))],
        ))
        .service(resource(
            &format!("{}/{{name}}", routes::TRIGGERS),
            [(Method::POST, web::to(triggers::post))],
        ))
        .service(resource(routes::INBOX, [(Method::GET, web::to(inbox::list))]))
        .service(resource(
            &format!("{}/{{space}}/brief", routes::AGENT_SPACES),
            [(Method::GET, web::to(brief::get))],
        ))
        .service(resource(tasks, [(Method::GET, web::to(tasks::list))]))
        .service(resource(&format!("{tasks}/{{id}}"), [(Method::GET, web::to(tasks::get))]))
        .service(resource(&format!("{tasks}/{{id}}/events"), [(Method::GET, web::to(tasks::events))]))
        .service(resource(&format!("{tasks}/{{id}}/session"), [(Method::GET, web::to(tasks::session))]))
        .service(resource(&format!("{tasks}/{{id}}/directives"), [(Method::POST, web::to(tasks::direct))]))
        .service(resource(&format!("{tasks}/{{id}}/award"), [(Method::GET, web::to(tasks::award))]))
        .service(resource(&format!("{tasks}/{{id}}/model"), [(Method::GET, web::to(tasks::model))]))
        .service(resource(&format!("{tasks}/{{id}}/trace"), [(Method::GET, web::to(traces::of_task))]))
        .service(resource(
            &format!("{}/{{id}}/trace", routes::MESSAGES),
            [(Method::GET, web::to(traces::of_message))],
        ))
        .service(resource(
            &format!("{}/{{id}}/trace", routes::CONVERSATIONS),
            [(Method::GET, web::to(traces::of_conversation))],
        ))
        .service(resource(
            &format!("{}/{{trace}}/reactions", routes::TRACES),
            [(Method::GET, web::to(traces::reactions::answer))],
        ))
        .service(resource(&format!("{tasks}/{{id}}/cancel"), [(Method::POST, web::to(tasks::cancel))]))
        .service(resource(&format!("{tasks}/{{id}}/retry"), [(Method::POST, web::to(tasks::retry))]))
        .service(resource(&format!("{tasks}/{{id}}/answer"), [(Method::POST, web::to(tasks::answer))]))
        .service(resource(
            routes::PEER,
            [(Method::PUT, web::to(peer::register)), (Method::DELETE, web::to(peer::leave))],
        ))
        .service(resource(&format!("{}/heartbeat", routes::PEER), [(Method::POST, web::to(peer::heartbeat))]))
        .service(resource(&format!("{}/turns", routes::PEER), [(Method::GET, web::to(peer::turns))]))
        .service(resource(&format!("{}/lines", routes::PEER), [(Method::POST, web::to(peer::lines))]))
        .service(resource(&format!("{}/token", routes::PEER), [(Method::POST, web::to(peer::token))]))
        .service(resource(
            routes::LOGINS,
            [(Method::GET, web::to(logins::list)), (Method::POST, web::to(logins::begin))],
        ))
        .service(resource(&format!("{}/finish", routes::LOGINS), [(Method::POST, web::to(logins::finish))]))
        .service(resource(&format!("{}/forget", routes::LOGINS), [(Method::POST, web::to(logins::forget))]))
        .service(resource(routes::TOOLS, [(Method::GET, web::to(tools::get))]))
        .service(resource(routes::LOGIN_CALLBACK, [(Method::GET, web::to(logins::callback))]))
        .service(resource(routes::ARTIFACTS, [(Method::PUT, web::to(artifacts::put))]))
        .service(resource(
            &format!("{}/{{sha256}}", routes::ARTIFACTS),
            [(Method::GET, web::to(artifacts::get))],
        ))
        .service(resource(dead_letters, [(Method::GET, web::to(dead_letters::list))]))
        .service(resource(&format!("{dead_letters}/{{id}}"), [(Method::GET, web::to(dead_letters::get))]))
        .service(resource(
            &format!("{dead_letters}/{{id}}/redrive"),
            [(Method::POST, web::to(dead_letters::redrive))],
        ))
        .service(resource(&format!("{}/{{id}}", routes::HOOKS), [(Method::POST, web::to(hooks::post))]))
        .service(resource(routes::JWKS, [(Method::GET, web::to(keys::jwks))]))
        .service(resource(routes::CARD, [(Method::GET, web::to(health::card))]));
}

/// The routes of a registry that tell the public key of the person's token, and the pinned keys.
pub fn registry_secrets(config: &mut web::ServiceConfig) {
    use actix_web::http::Method;
    let keys = routes::REGISTRY_KEYS;
    config
        .service(resource(routes::REGISTRY_TOKEN, [(Method::GET, web::to(person_token::get))]))
        .service(resource(keys, [(Method::GET, web::to(keys::pinned))]))
        .service(resource(&format!("{keys}/{{id}}/reset"), [(Method::POST, web::to(keys::reset))]))
        .service(resource(
            &format!("{}/{{id}}/forget", routes::AGENTS),
            [(Method::POST, web::to(keys::forget))],
        ));
}

/// The routes of a board that is told the public key of the person's token, and what the registry says about keys.
pub fn board_secrets(config: &mut web::ServiceConfig) {
    use actix_web::http::Method;
    config
        .service(resource(routes::BOARD_TOKEN, [(Method::PUT, web::to(person_token::put))]))
        .service(resource(routes::BOARD_KEY_RECORDS, [(Method::PUT, web::to(keys::put_records))]));
}

/// The routes of every process.
pub fn process(config: &mut web::ServiceConfig) {
    use actix_web::http::Method;
    config
        .service(resource(routes::HEALTH, [(Method::GET, web::to(health::health))]))
        .service(resource(routes::READY, [(Method::GET, web::to(health::ready))]))
        .service(resource(routes::JOIN, [(Method::POST, web::to(join::post))]))
        .service(resource(
            &format!("{}/{{id}}/rotate", routes::OWN_KEYS),
            [(Method::POST, web::to(keys::rotate))],
        ))
        .service(resource(routes::SERVICES, [(Method::GET, web::to(health::services))]))
        .service(resource(routes::OPENAPI, [(Method::GET, web::to(super::openapi::get))]))
        .service(resource(routes::METRICS, [(Method::GET, web::to(metrics::metrics))]))
        .service(resource(routes::STATE, [(Method::GET, web::to(health::state))]));
}

fn id<T: std::str::FromStr<Err = protocol::ids::BadId>>(text: &str) -> Result<T, Problem> {
    text.parse().map_err(|error: protocol::ids::BadId| Problem::new(Reason::InvalidField, error.to_string()))
}
