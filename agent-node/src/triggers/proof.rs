//! Whether a delivery comes from who knows the secret of the trigger. Signatures cover the body as it was sent, byte by byte.

use super::{Trigger, TriggerAuth};
use crate::outbox::a2a::credentials::SecretString;
use actix_web::http::header::{AUTHORIZATION, HeaderMap};
use protocol::{
    ids::Digest,
    problem::{Problem, Reason},
    time::WallTime,
};
use ring::hmac::{HMAC_SHA256, Key, verify};

const GITHUB: &str = "x-hub-signature-256";
const STRIPE: &str = "stripe-signature";
/// The most signatures of one header that are tried: Stripe sends one for each secret that is in use.
const MAX_SIGNATURES: usize = 8;

/// Fails if the delivery does not prove its sender.
pub(super) fn check(
    trigger: &Trigger,
    headers: &HeaderMap,
    body: &[u8],
    now: WallTime,
) -> Result<(), Problem> {
    match trigger.auth {
        TriggerAuth::Github => {
            let given = header(headers, GITHUB, "X-Hub-Signature-256")?;
            let signature = given.strip_prefix("sha256=").and_then(|hex| Digest::parse(hex).ok());
            let signature =
                signature.ok_or_else(|| refused("X-Hub-Signature-256 must be sha256= and hex"))?;
            is_signed(trigger, &[body], &[signature])
        }
        TriggerAuth::Stripe => {
            let given = header(headers, STRIPE, "Stripe-Signature")?;
            let members = || given.split(',').filter_map(|member| member.trim().split_once('='));
            let times = members().filter(|(name, _)| *name == "t").map(|(_, time)| time);
            let (Some(time), None) = (times.clone().next(), times.clone().nth(1)) else {
                return Err(refused("Stripe-Signature must have one t="));
            };
            let signatures = members().filter(|(name, _)| *name == "v1");
            let signatures: Vec<_> =
                signatures.filter_map(|(_, hex)| Digest::parse(hex).ok()).take(MAX_SIGNATURES).collect();
            is_signed(trigger, &[time.as_bytes(), b".", body], &signatures)?;
            let seconds: i64 = time.parse().map_err(|_| refused("t= of Stripe-Signature is no time"))?;
            let age = now.0.saturating_sub(seconds.saturating_mul(1_000)).unsigned_abs();
            match age <= trigger.replay_window.0 {
                true => Ok(()),
                false => {
                    let message = format!(
                        "t= of Stripe-Signature is {} s from the time here; at most {} s are allowed (`replayWindow`)",
                        age / 1_000,
                        trigger.replay_window.0 / 1_000
                    );
                    Err(Problem::new(Reason::StaleSignature, message))
                }
            }
        }
        TriggerAuth::Bearer => {
            let given = header(headers, AUTHORIZATION.as_str(), "Authorization")?;
            let token = given.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
            let token = token.map(|(_, token)| Digest::of(token.trim().as_bytes()));
            let is_known = |secret: &SecretString| token == Some(Digest::of(secret.expose().as_bytes()));
            match trigger.secrets.iter().any(is_known) {
                true => Ok(()),
                false => Err(refused("Authorization is not `Bearer` with the secret of this trigger")),
            }
        }
    }
}

/// The value of a header that must be there once.
fn header<'a>(headers: &'a HeaderMap, name: &str, shown: &str) -> Result<&'a str, Problem> {
    let mut values = headers.get_all(name);
    match (values.next().map(|value| value.to_str()), values.next()) {
        (Some(Ok(value)), None) => Ok(value),
        (None, _) => {
            Err(refused(&format!("{shown} is missing: does the sender have the secret of this trigger?")))
        }
        _ => Err(refused(&format!("{shown} must be there once, and be text"))),
    }
}

/// Fails if none of `signatures` is that of `parts` under one of the secrets. The comparison takes the same time whatever differs.
fn is_signed(trigger: &Trigger, parts: &[&[u8]], signatures: &[Digest]) -> Result<(), Problem> {
    let signed = parts.concat();
    let is_valid = trigger.secrets.iter().any(|secret| {
        let key = Key::new(HMAC_SHA256, secret.expose().as_bytes());
        signatures.iter().any(|signature| verify(&key, &signed, signature.bytes()).is_ok())
    });
    match is_valid {
        true => Ok(()),
        false => Err(refused("the signature is not that of this body under the secret of this trigger")),
    }
}

fn refused(message: &str) -> Problem {
    Problem::new(Reason::Unauthenticated, message)
}
