//! The edge's checks for a gRPC call.

use super::{
    Edge, InFlightPermit, body,
    identity::{PresentedCredentials, credential_required},
    origin,
    stream_limit::StreamPermit,
    tokens,
};
use crate::{budget_holder::BudgetHolder, http::connections::ServedRequest};
use bytes::Bytes;
use futures_util::Stream;
use protocol::{
    principal::Principal,
    problem::{Problem, Reason},
};
use std::{fmt::Display, net::IpAddr, time::Instant};

/// What a call presents about its sender.
pub(crate) struct CallCredentials<'a> {
    /// The authority and the `Host` headers.
    pub(crate) hosts: &'a [&'a str],
    /// Whether it has an `Origin`, as a web page's call does.
    pub(crate) has_origin: bool,
    /// Whether it has the signature headers of the mesh.
    pub(crate) is_signed: bool,
    /// Whether it has the header of calls that leave a mesh.
    pub(crate) is_outbound: bool,
    /// Whether it has a header of a proxy that passes it on.
    pub(crate) is_proxied: bool,
    pub(crate) key: Result<Option<&'a str>, Problem>,
    pub(crate) authorization: Result<Option<&'a str>, Problem>,
    pub(crate) from: IpAddr,
    /// What proxies say of whom they pass it on for.
    pub(crate) forwarded_for: &'a [&'a str],
    /// Whether the call is one whose message may have files.
    pub(crate) takes_files: bool,
}

pub(crate) struct AdmittedCall {
    pub(crate) bytes: Bytes,
    /// The body's share of the memory budget.
    pub(crate) guard: Option<body::BodyBudgetGuard>,
    pub(crate) by: Principal,
    pub(crate) holder: BudgetHolder,
    /// Its permit among the requests in flight.
    pub(crate) permit: InFlightPermit,
}

impl Edge {
    /// Checks the call `served` with the body `payload`. Fails with the refusal.
    pub(crate) async fn admit<E: Display>(
        &self,
        served: &ServedRequest,
        credentials: &CallCredentials<'_>,
        mut payload: impl Stream<Item = Result<Bytes, E>> + Unpin,
    ) -> Result<AdmittedCall, Problem> {
        let (state, config) = (&*self.0, self.config());
        if credentials.has_origin {
            return Err(Problem::new(Reason::ForeignOrigin, "calls of web pages (Origin) are not taken"));
        }
        if credentials.hosts.is_empty() {
            return Err(Problem::new(Reason::BadRequest, "a call has an authority"));
        }
        credentials.hosts.iter().try_for_each(|host| origin::check_host(host, &config.hosts))?;
        let local = Principal::local_user();
        let found = self.authenticate(credentials, &local);
        let (by, holder) = found.map_err(|problem| {
            let client = config.auth.client_behind(credentials.from, credentials.forwarded_for);
            state.failed_auth.limit_failure(Some(client), problem, Instant::now())
        })?;
        state.check_rate(&by, &local)?;
        if holder.has_credential() {
            served.note_caller(&holder)?;
        }
        let rules = body::BodyRules::for_message(config);
        let rules = if credentials.takes_files { rules.of(config.limits.max_a2a_body_bytes) } else { rules };
        let budgets = body::Budgets { memory: state.budget(&holder), disk: &state.spooled };
        let body = body::read(&mut payload, &rules, budgets, &holder).await?;
        if !holder.has_credential() {
            served.note_caller(&holder)?;
        }
        let permit = state.in_flight.acquire()?;
        Ok(AdmittedCall { bytes: body.bytes, guard: body.guard, by, holder, permit })
    }

    fn authenticate(
        &self,
        credentials: &CallCredentials<'_>,
        local: &Principal,
    ) -> Result<(Principal, BudgetHolder), Problem> {
        if credentials.is_signed {
            let message = "agents sign what they send over HTTP; here a user's credential counts";
            return Err(Problem::new(Reason::Unauthenticated, message));
        }
        let presented = PresentedCredentials {
            key: credentials.key.clone()?,
            authorization: credentials.authorization.clone()?,
            from: Some(credentials.from),
            is_outbound: credentials.is_outbound,
            is_proxied: credentials.is_proxied,
            has_origin: credentials.has_origin,
            hosts: credentials.hosts,
            port: None,
        };
        let found = self.config().auth.user(&presented, local)?;
        let found = found.ok_or_else(|| credential_required("from another machine"))?;
        tokens::check_reach(&found.0, false, "POST", "gRPC")?;
        Ok(found)
    }

    /// A permit for one more stream of `reader`, or 429.
    pub(crate) fn open_stream(&self, reader: &BudgetHolder) -> Result<StreamPermit, Problem> {
        self.config().streams.acquire(reader)
    }

    pub(crate) fn count_refusal(&self, problem: &Problem) {
        self.0.count(problem);
    }
}
