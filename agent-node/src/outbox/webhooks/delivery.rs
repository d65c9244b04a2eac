//! One event to one receiver: the tries, and what its answers mean.

use crate::outbox::{
    outbound_client::{Error as Unreached, OutboundClient, OutboundRequest},
    retry_after::retry_after,
};
use protocol::a2a::limits::{WEBHOOK_ATTEMPT_MS, WEBHOOK_ATTEMPTS};
use reqwest::Method;
use std::time::{Duration, SystemTime};

/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_millis(WEBHOOK_ATTEMPT_MS as u64);
/// The wait after the first of [`WEBHOOK_ATTEMPTS`] for one event; it doubles from attempt to attempt.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The header with the id of an event, by which a receiver knows it again (Standard Webhooks). It is the same in every try.
const EVENT_ID: &str = "webhook-id";
pub(super) const PLAIN_JSON: &str = "application/json";

/// Why an event was not told, and what follows from it.
struct Untold {
    why: String,
    /// Whether another try may succeed.
    may_pass: bool,
    /// Whether there will never be a receiver again.
    is_gone: bool,
    /// Whether it takes another media type.
    is_other_type: bool,
    /// How long the receiver wants to be left alone.
    after: Option<Duration>,
}

impl Untold {
    fn new(why: String) -> Self {
        Self { why, may_pass: false, is_gone: false, is_other_type: false, after: None }
    }
}

/// What has become of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeliveryOutcome {
    Told,
    Missed,
    /// The receiver says that it will never take one again.
    Gone,
}

/// An event for a receiver.
pub(super) struct WebhookDelivery<'a> {
    pub(super) url: &'a str,
    pub(super) event: &'a str,
    /// Headers that no log shows.
    pub(super) secret_headers: Vec<(&'static str, String)>,
    pub(super) media_type: &'static str,
    pub(super) body: String,
    /// Whether a refusal is tried again, too. One may pass, as that of a gateway does whose service is deployed anew.
    pub(super) outlasts_refusals: bool,
}

impl WebhookDelivery<'_> {
    /// Sends it, again and again if need be. `warn` is told the number of a try that has failed, and why.
    pub(super) async fn send(
        mut self,
        client: &OutboundClient,
        warn: impl Fn(usize, &str),
    ) -> DeliveryOutcome {
        let mut wait = FIRST_WAIT;
        for attempt in 1..=WEBHOOK_ATTEMPTS {
            match self.attempt(client).await {
                Ok(()) => return DeliveryOutcome::Told,
                Err(Untold { why, may_pass, is_gone, is_other_type, after }) => {
                    warn(attempt, &why);
                    if is_gone {
                        return DeliveryOutcome::Gone;
                    }
                    // Many receivers take plain JSON alone.
                    if is_other_type && std::mem::replace(&mut self.media_type, PLAIN_JSON) != PLAIN_JSON {
                        continue;
                    }
                    if !may_pass && !self.outlasts_refusals {
                        break;
                    }
                    wait = after.unwrap_or(wait).clamp(wait, LONGEST_WAIT.max(wait));
                }
            }
            if attempt < WEBHOOK_ATTEMPTS {
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
        }
        DeliveryOutcome::Missed
    }

    async fn attempt(&self, client: &OutboundClient) -> Result<(), Untold> {
        let call = OutboundRequest::new(Method::POST, self.url)
            .body(self.media_type, self.body.clone())
            .header(EVENT_ID, self.event)
            .with_timeout(ATTEMPT);
        let call =
            self.secret_headers.iter().fold(call, |call, (name, value)| call.secret_header(name, value));
        match client.send(call).await {
            Ok(answer) if answer.status.is_success() => Ok(()),
            Ok(answer) => {
                let status = answer.status.as_u16();
                let after = answer.header("retry-after");
                Err(Untold {
                    may_pass: answer.status.is_server_error() || [408, 425, 429].contains(&status),
                    is_gone: status == 410,
                    is_other_type: status == 415,
                    after: after.and_then(|value| retry_after(value, SystemTime::now())),
                    ..Untold::new(format!("it answered {status}"))
                })
            }
            // A long answer is an answer.
            Err(Unreached::TooLarge(_)) => Ok(()),
            Err(Unreached::Unreachable(why)) => Err(Untold { may_pass: true, ..Untold::new(why) }),
            Err(Unreached::AddressRefused(why)) => Err(Untold::new(why)),
            Err(Unreached::BadUrl(_)) => Err(Untold::new("it is no URL that can be called".to_owned())),
        }
    }
}
