//! The locations of the registry and the board, and their discovery through `GET /services`.

use crate::start_error::StartError;
use blackboard::client::{Blackboard, BoardAddress};
use protocol::{
    principal::Principal,
    problem::{Problem, Reason},
    routes,
};
use registry::{client::Registry, entry::AgentQuery};
use serde::{Deserialize, Serialize};
use transport::http_client::{ClientRequest, HttpClient, is_foreign_response, redact_url};

/// The answer to `GET /services`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceAddresses {
    /// The registry: a base URL or `here`; `None` if the process uses none.
    pub registry: Option<String>,
    /// The board: a base URL or `here`; `None` if the registry knows it.
    pub board: Option<String>,
}

/// Stands for the base URL of the answering process.
pub const HERE: &str = "here";

impl ServiceAddresses {
    /// The base URL of the board; `asked` is the base URL of the answering process.
    pub fn board_from(&self, asked: &str) -> Option<String> {
        self.board.as_ref().map(|board| if board == HERE { asked.to_owned() } else { board.clone() })
    }
}

/// The location of the registry or the board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceLocation {
    Local,
    /// At this base URL.
    Remote(String),
    /// Where the registry says; for the board only.
    FromRegistry,
}

/// Finds the registry and the board.
pub struct ServiceLocator {
    registry: Option<ServiceLocation>,
    board: ServiceLocation,
    wire: HttpClient,
}

impl ServiceLocator {
    pub(crate) fn new(registry: Option<ServiceLocation>, board: ServiceLocation, wire: &HttpClient) -> Self {
        Self { registry, board, wire: wire.with_unreachable_reason(Reason::BlackboardUnavailable) }
    }

    /// The answer to `GET /services`, with credentials removed from URLs.
    pub fn addresses(&self) -> ServiceAddresses {
        let address = |service: &ServiceLocation| match service {
            ServiceLocation::Local => Some(HERE.to_owned()),
            ServiceLocation::Remote(url) => Some(redact_url(url).into_owned()),
            ServiceLocation::FromRegistry => None,
        };
        ServiceAddresses { registry: self.registry.as_ref().and_then(address), board: address(&self.board) }
    }

    /// The base URL of a board in another process, if it is configured here.
    pub(crate) fn board_url(&self) -> Option<&str> {
        match &self.board {
            ServiceLocation::Remote(url) => Some(url),
            ServiceLocation::Local | ServiceLocation::FromRegistry => None,
        }
    }

    /// The board's base URL, or a lookup of it at the registry.
    pub(crate) fn board_base(&self) -> BoardAddress {
        let registry = match (&self.board, &self.registry) {
            (ServiceLocation::Remote(url), _) => return url.clone().into(),
            (_, Some(ServiceLocation::Remote(registry))) => registry.clone(),
            (_, Some(ServiceLocation::Local | ServiceLocation::FromRegistry) | None) => String::new(),
        };
        let wire = self.wire.with_unreachable_reason(Reason::RegistryUnavailable);
        BoardAddress::resolved_by(move || {
            let (wire, registry) = (wire.clone(), registry.clone());
            async move {
                let url = format!("{registry}{}", routes::SERVICES);
                let addresses: Result<ServiceAddresses, Problem> =
                    wire.json(ClientRequest::get(&url, "registry")).await;
                // A proxy or another server answered instead of the registry.
                let unavailable = |problem: Problem| match is_foreign_response(&problem) {
                    true => Problem { reason: Reason::RegistryUnavailable, ..problem },
                    false => problem,
                };
                let addresses = addresses.map_err(unavailable)?;
                addresses.board_from(&registry).ok_or_else(|| {
                    let message =
                        format!("the registry at {} knows no board; say --board", redact_url(&registry));
                    Problem::new(Reason::BlackboardUnavailable, message)
                })
            }
        })
    }

    /// Fails if a remote service refuses this process's join secret. A service that can't be reached is no failure here.
    pub(crate) async fn check_join_secret(
        &self,
        registry: Option<Registry>,
        board: Blackboard,
    ) -> Result<(), StartError> {
        let refused = |at: String, problem: Problem| match problem.reason == Reason::Unauthenticated
            && !is_foreign_response(&problem)
        {
            true => Err(StartError::JoinSecretRefused { at, message: problem.message }),
            false => Ok(()),
        };
        if let (Some(ServiceLocation::Remote(url)), Some(registry)) = (&self.registry, registry)
            && let Err(problem) = registry.read(AgentQuery::default()).await
        {
            // Another process of the mesh answers 401 to the registry's id, too; it names the registry.
            let services = format!("{url}{}", routes::SERVICES);
            let at = redact_url(url);
            if problem.reason == Reason::Unauthenticated
                && let Ok(addresses) =
                    self.wire.json::<ServiceAddresses>(ClientRequest::get(&services, "registry")).await
                && addresses.registry.as_deref() != Some(HERE)
            {
                return Err(StartError::NotARegistry {
                    at: at.into_owned(),
                    known: addresses.registry.map(|url| redact_url(&url).into_owned()),
                });
            }
            refused(format!("the registry at {at}"), problem)?;
        }
        if self.board != ServiceLocation::Local
            && let Err(problem) = board.read(&Principal::local_user(), &Default::default(), None, 0).await
        {
            let at = match &self.board {
                ServiceLocation::Remote(url) => format!("the blackboard at {}", redact_url(url)),
                ServiceLocation::Local | ServiceLocation::FromRegistry => {
                    "the blackboard that the registry names".to_owned()
                }
            };
            refused(at, problem)?;
        }
        Ok(())
    }
}
