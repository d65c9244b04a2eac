//! The same edge for calls of another transport: what HTTP's requests pass, a remote procedure call passes too.

use super::{
    Edge, Permit, body,
    identity::{Shown, stranger},
    origin,
    readers::Seat,
};
use bytes::Bytes;
use futures_util::Stream;
use protocol::{
    principal::Principal,
    problem::{Problem, Reason},
};
use std::{fmt::Display, net::IpAddr, time::Instant};

/// What a call says of its sender.
pub(crate) struct Credentials<'a> {
    /// The host it means.
    pub(crate) authority: &'a str,
    /// Whether a web page makes it.
    pub(crate) has_origin: bool,
    /// Whether it carries a signature of the mesh.
    pub(crate) is_signed: bool,
    /// An API key.
    pub(crate) key: Option<&'a str>,
    /// A credential of another scheme.
    pub(crate) authorization: Option<&'a str>,
    /// Where it comes from.
    pub(crate) from: IpAddr,
}

/// A call that was let in.
pub(crate) struct Admitted {
    /// What it carries.
    pub(crate) bytes: Bytes,
    /// Its share of the memory for what comes in pieces.
    pub(crate) held: Option<body::Held>,
    /// Who makes it.
    pub(crate) by: Principal,
    /// Its place among those in flight.
    pub(crate) place: Permit,
}

impl Edge {
    /// Lets a call in whose parameters come as `payload`, or says why not.
    pub(crate) async fn admit<E: Display>(
        &self,
        credentials: &Credentials<'_>,
        mut payload: impl Stream<Item = Result<Bytes, E>> + Unpin,
    ) -> Result<Admitted, Problem> {
        let (shared, front) = (&*self.0, self.front());
        if credentials.has_origin {
            return Err(Problem::new(Reason::ForeignOrigin, "calls of web pages (Origin) are not taken"));
        }
        origin::check_host(credentials.authority, &front.hosts)?;
        let rules = body::Rules::for_message(front);
        let body = body::read(&mut payload, &rules, &shared.buffered).await?;
        let local = Principal::local_user();
        let by = self.who(credentials, &local);
        let by =
            by.map_err(|problem| shared.failed.refuse(Some(credentials.from), problem, Instant::now()))?;
        shared.rate(&by, &local)?;
        Ok(Admitted { bytes: body.bytes, held: body.held, by, place: shared.in_flight.enter()? })
    }

    fn who(&self, credentials: &Credentials<'_>, local: &Principal) -> Result<Principal, Problem> {
        if credentials.is_signed {
            let message = "agents sign what they send over HTTP; here a user's credential counts";
            return Err(Problem::new(Reason::Unauthenticated, message));
        }
        let shown = Shown {
            key: credentials.key,
            authorization: credentials.authorization,
            from: Some(credentials.from),
            called: &[credentials.authority],
        };
        let found = self.front().auth.user(&shown, local)?;
        found.ok_or_else(stranger)
    }

    /// A stream's seat for its reader, or 429.
    pub(crate) fn seat(&self, reader: &Principal) -> Result<Seat, Problem> {
        self.front().readers.enter(reader)
    }

    /// Counts a refusal.
    pub(crate) fn count(&self, problem: &Problem) {
        self.0.refuse(problem);
    }
}
