//! Where the registry and the board are, how a process that was not told finds out, and why a process does not start.

use blackboard::{
    client::{Base, Blackboard},
    wire::{Call, Wire, is_strange, shown},
};
use protocol::{
    ids::AgentId,
    principal::Principal,
    problem::{Problem, Reason},
    routes,
};
use registry::{client::Registry, entry::AgentQuery};
use serde::{Deserialize, Serialize};
use std::{net::IpAddr, path::PathBuf};

/// Why a process does not start, as far as its exit code tells.
#[derive(Debug, thiserror::Error)]
pub enum NotStarted {
    /// Something else listens there, or nobody may.
    #[error(
        "port {port} on {ip} can't be listened on (--port, or an agent's own `port`, says another; 0 is any free one)"
    )]
    Port {
        /// On which address.
        ip: IpAddr,
        /// Which port.
        port: u16,
        /// What the system said.
        source: std::io::Error,
    },
    /// It would be open to other machines, with nothing to tell its own kind by.
    #[error(
        "--listen {listen} reaches beyond this machine, which needs a join secret that the whole mesh shares, and {} is not \
         there: make it once with `mesh join-secret --init FILE`, and name it with --join FILE or MESH_JOIN",
        file.display()
    )]
    Beyond {
        /// Where it was to listen.
        listen: IpAddr,
        /// Where the secret was looked for.
        file: PathBuf,
    },
    /// The secret's file holds none, or cannot be read.
    #[error("the join secret {}: {why}", file.display())]
    NoSecret {
        /// Which file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The file of an agent's own key holds none, or cannot be read.
    #[error("the key of {agent}, {}: {why}", file.display())]
    NoKey {
        /// Whose.
        agent: AgentId,
        /// Which file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// What is said to be the registry is none.
    #[error(
        "what listens at {at} is no registry: --registry (MESH_REGISTRY) wants the base URL of `mesh registry` or `mesh up`{}",
        its.as_ref().map(|its| format!("; that of this mesh is at {its}")).unwrap_or_default()
    )]
    NoRegistry {
        /// Where it was looked for.
        at: String,
        /// Where the one that was asked says that it is.
        its: Option<String>,
    },
    /// The others have another secret.
    #[error(
        "{at} does not take this process's join secret; --join names the file that all of a mesh share ({said})"
    )]
    ForeignSecret {
        /// Who refused.
        at: String,
        /// In which words.
        said: String,
    },
}

/// One process's answer to `GET /services`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// The registry: a base URL, or `here`; none if the process has nothing to do with one.
    pub registry: Option<String>,
    /// The board: a base URL, or `here`; none if the registry has to be asked.
    pub board: Option<String>,
}

/// The word for *at the base URL that was asked*.
pub const HERE: &str = "here";

impl Told {
    /// The base URL of the board, if the process at `asked` knows it.
    pub fn board_from(&self, asked: &str) -> Option<String> {
        self.board.as_ref().map(|board| if board == HERE { asked.to_owned() } else { board.clone() })
    }
}

/// Where a service is: in this process, or somewhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Service {
    /// In this process.
    Here,
    /// At this base URL.
    At(String),
    /// Wherever the registry says, once it can be asked. A board only.
    Told,
}

/// What this process knows of where the services are.
pub struct Known {
    registry: Option<Service>,
    board: Service,
    wire: Wire,
}

impl Known {
    pub(super) fn new(registry: Option<Service>, board: Service, wire: &Wire) -> Self {
        Self { registry, board, wire: wire.unreachable_is(Reason::BlackboardUnavailable) }
    }

    /// What others are told: never how this process proves itself to a proxy on the way.
    pub fn told(&self) -> Told {
        let word = |service: &Service| match service {
            Service::Here => Some(HERE.to_owned()),
            Service::At(url) => Some(shown(url).into_owned()),
            Service::Told => None,
        };
        Told { registry: self.registry.as_ref().and_then(word), board: word(&self.board) }
    }

    /// The board's base URL, or how it is found.
    pub(super) fn board_base(&self) -> Base {
        let registry = match (&self.board, &self.registry) {
            (Service::At(url), _) => return url.clone().into(),
            (_, Some(Service::At(registry))) => registry.clone(),
            (_, Some(Service::Here | Service::Told) | None) => String::new(),
        };
        let wire = self.wire.unreachable_is(Reason::RegistryUnavailable);
        Base::found_by(move || {
            let (wire, registry) = (wire.clone(), registry.clone());
            async move {
                let url = format!("{registry}{}", routes::SERVICES);
                let told: Result<Told, Problem> = wire.json(Call::get(&url, "registry")).await;
                // A proxy, or what is no registry at all, which its followers say.
                let away = |problem: Problem| match is_strange(&problem) {
                    true => Problem { reason: Reason::RegistryUnavailable, ..problem },
                    false => problem,
                };
                let told = told.map_err(away)?;
                told.board_from(&registry).ok_or_else(|| {
                    let message = format!("the registry at {} knows no board; say --board", shown(&registry));
                    Problem::new(Reason::BlackboardUnavailable, message)
                })
            }
        })
    }

    /// Refuses to start under a secret that the services elsewhere do not take. Those that cannot be asked yet are
    /// asked later, by whoever needs them.
    pub(super) async fn accept(
        &self,
        registry: Option<Registry>,
        board: Blackboard,
    ) -> Result<(), NotStarted> {
        let refused = |at: String, problem: Problem| match problem.reason == Reason::Unauthenticated
            && !is_strange(&problem)
        {
            true => Err(NotStarted::ForeignSecret { at, said: problem.message }),
            false => Ok(()),
        };
        if let (Some(Service::At(url)), Some(registry)) = (&self.registry, registry)
            && let Err(problem) = registry.find(&AgentQuery::default()).await
        {
            // Another process of the mesh has other names, too.
            let services = format!("{url}{}", routes::SERVICES);
            let at = shown(url);
            if problem.reason == Reason::Unauthenticated
                && let Ok(told) = self.wire.json::<Told>(Call::get(&services, "registry")).await
                && told.registry.as_deref() != Some(HERE)
            {
                return Err(NotStarted::NoRegistry {
                    at: at.into_owned(),
                    its: told.registry.map(|its| shown(&its).into_owned()),
                });
            }
            refused(format!("the registry at {at}"), problem)?;
        }
        if self.board != Service::Here
            && let Err(problem) = board.read(&Principal::local_user(), &Default::default(), None, 0).await
        {
            let at = match &self.board {
                Service::At(url) => format!("the blackboard at {}", shown(url)),
                Service::Here | Service::Told => "the blackboard that the registry names".to_owned(),
            };
            refused(at, problem)?;
        }
        Ok(())
    }
}
