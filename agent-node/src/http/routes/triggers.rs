//! `/a2a/triggers/{name}`: other systems begin tasks by webhook. Whoever has the secret of the trigger may call it.

use crate::{http::node_state::NodeState, inbox::TakeMessage, tasks, triggers::Delivered};
use actix_web::{HttpRequest, HttpResponse, web};
use bytes::Bytes;
use protocol::{
    problem::{Problem, Reason},
    task::TaskOrigin,
};
use serde_json::json;
use transport::refusal::Refusal;

/// Takes a delivery: 202 with the task that it begins, 200 if it has begun one before or begins none.
pub async fn post(
    request: HttpRequest,
    node: web::Data<NodeState>,
    name: web::Path<String>,
    body: web::ReqData<Bytes>,
) -> Result<HttpResponse, Refusal> {
    let local = node.default_agent(&request)?;
    let Some(trigger) = local.triggers.get(name.as_str()) else {
        return Err(Problem::new(
            Reason::RouteNotFound,
            format!("{} has no trigger {:?}", local.id, name.as_str()),
        )
        .into());
    };
    let delivery = (request.headers(), &body[..], node.limits.max_depth);
    let delivered = trigger.deliver((&local.id, &name), delivery, node.clock.wall());
    let delivered = delivered.inspect_err(|problem| {
        tracing::info!(agent = %local.id, trigger = %name, %problem, "a delivery is refused");
    });
    let (incoming, task, by) = match delivered? {
        Delivered::Ignored(why) => return Ok(HttpResponse::Ok().json(json!({ "ignored": why }))),
        Delivered::Begins { request, task, by } => (request, task, by),
    };
    let known = || json!({ "accepted": true, "taskId": task, "duplicate": true });
    // Also if the template has changed since.
    if let Some(row) = tasks::row(local.store.as_ref(), &local.id, &task, &by).map_err(Problem::from)? {
        let is_of_trigger =
            |origin: &TaskOrigin| matches!(origin, TaskOrigin::Trigger { name: of, .. } if *of == *name);
        return match row.task.spec.origin.as_deref().is_some_and(is_of_trigger) {
            true => Ok(HttpResponse::Ok().json(known())),
            false => {
                Err(Problem::new(Reason::TaskIdReused, format!("{task} is the id of another task")).into())
            }
        };
    }
    let taken = tokio::time::timeout(node.ack(), local.actor.send(TakeMessage(*incoming))).await;
    let late = |_| {
        let message =
            format!("{} did not acknowledge within {} ms; send it again", local.id, node.limits.ack_ms);
        Problem::new(Reason::GatewayTimeout, message)
    };
    let stopped = |_| Problem::new(Reason::Overloaded, format!("{} has stopped", local.id));
    let ack = taken.map_err(late)?.map_err(stopped)??;
    Ok(match ack.duplicate {
        true => HttpResponse::Ok().json(known()),
        false => HttpResponse::Accepted().json(json!({ "accepted": true, "taskId": task })),
    })
}
