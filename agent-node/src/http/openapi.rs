//! `GET /openapi.json`: an OpenAPI 3.1 document of the routes that this process serves. The router names the methods and
//! paths, this module adds a summary, the request's body and the answers. A route without a description fails a test.

mod descriptions;

use super::node_state::NodeState;
use actix_web::{HttpResponse, web};
use descriptions::{Description, describe};
use protocol::{
    a2a::{request::A2aOperation, route},
    routes,
};
use serde_json::{Map, Value, json};
use transport::resource::RegisteredRoute;

pub(super) async fn get(node: web::Data<NodeState>) -> HttpResponse {
    HttpResponse::Ok().json(node.openapi.get())
}

/// Every route of a router that has registered `routes`: these, and those of A2A's HTTP+JSON binding, which has one handler for all
/// its paths.
pub fn all_routes(mut routes: Vec<RegisteredRoute>) -> Vec<RegisteredRoute> {
    if routes.iter().any(|route| route.path == routes::A2A_RPC) {
        routes.extend(A2aOperation::ALL.iter().map(|operation| {
            let (method, path) = route::template(*operation);
            RegisteredRoute { method: method.to_owned(), path: format!("{}/{path}", routes::A2A_REST) }
        }));
    }
    // A second spelling of the same route.
    routes.retain(|route| route.path == "/" || !route.path.ends_with('/'));
    routes.sort();
    routes
}

/// The document of these routes.
pub fn document(routes: &[RegisteredRoute]) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in routes {
        let operation = describe(&route.method, &route.path).map_or_else(|| json!({}), operation);
        let with_parameters = with_path_parameters(operation, &route.path);
        let path = paths.entry(route.path.clone()).or_insert_with(|| json!({}));
        path[route.method.to_ascii_lowercase()] = with_parameters;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Agent Mesh",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths,
        "security": [{}, { "apiKey": [] }, { "bearer": [] }],
        "components": {
            "securitySchemes": {
                "apiKey": { "type": "apiKey", "in": "header", "name": protocol::a2a::agent_policy::API_KEY_HEADER },
                "bearer": { "type": "http", "scheme": "bearer" },
            },
            "schemas": { "Refusal": descriptions::refusal() },
        },
    })
}

fn operation(description: Description) -> Value {
    let mut responses = Map::new();
    for (status, content) in description.answers {
        let content = content.map(|(media_type, schema)| json!({ media_type: { "schema": schema } }));
        let mut answer = json!({ "description": "" });
        if let Some(content) = content {
            answer["content"] = content;
        }
        responses.insert(status.to_string(), answer);
    }
    let refusal = json!({ "schema": { "$ref": "#/components/schemas/Refusal" } });
    responses.insert(
        "default".to_owned(),
        json!({
            "description": "A refusal.",
            "content": { "application/json": refusal, "application/a2a+json": refusal },
        }),
    );
    let mut operation = json!({ "summary": description.summary, "responses": responses });
    let query = description.query.iter().map(|(name, schema)| parameter(name, "query", schema.clone()));
    let headers = description.headers.iter().map(|(name, schema)| {
        let mut header = parameter(name, "header", schema.clone());
        header["required"] = true.into();
        header
    });
    operation["parameters"] = query.chain(headers).collect();
    if let Some((media_type, schema)) = description.body {
        operation["requestBody"] =
            json!({ "required": true, "content": { media_type: { "schema": schema } } });
    }
    operation
}

fn with_path_parameters(mut operation: Value, path: &str) -> Value {
    let names = path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let parameters: Vec<_> = names
        .map(|name| {
            let mut parameter = parameter(name, "path", descriptions::path_parameter(name));
            parameter["required"] = true.into();
            parameter
        })
        .collect();
    if let Some(all) = operation["parameters"].as_array_mut() {
        all.extend(parameters);
    }
    operation
}

fn parameter(name: &str, place: &str, schema: Value) -> Value {
    json!({ "name": name, "in": place, "schema": schema })
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::web::ServiceConfig;
    use transport::resource::registered;

    fn every_route() -> Vec<RegisteredRoute> {
        all_routes(registered(|config: &mut ServiceConfig| {
            config
                .configure(crate::http::routes::messages)
                .configure(crate::http::a2a::rpc)
                .configure(crate::http::routes::process)
                .configure(crate::http::console::routes)
                .configure(crate::http::routes::agents)
                .configure(crate::http::a2a::routes)
                .configure(crate::http::mcp::routes)
                .configure(registry::http::routes)
                .configure(crate::http::routes::registry_secrets)
                .configure(blackboard::http::routes)
                .configure(crate::http::routes::board_secrets);
        }))
    }

    #[test]
    fn every_route_is_described() {
        let routes = every_route();
        assert!(routes.len() > 40, "{routes:#?}");
        for RegisteredRoute { method, path } in &routes {
            assert!(describe(method, path).is_some(), "{method} {path} has no description");
        }
        let document = document(&routes);
        let tasks = &document["paths"]["/a2a/tasks/{id}"]["get"];
        assert_eq!(tasks["parameters"][0]["name"], "id", "{tasks:#}");
        assert!(document["paths"]["/a2a/v1/tasks/{id}:cancel"]["post"].is_object());
        assert!(document["paths"]["/openapi.json"]["get"].is_object());
    }
}
