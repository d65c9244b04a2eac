//! The endpoints of the mesh, which its client for the outside never calls.

use super::advertise::AdvertiseConfig;
use crate::services::ServiceLocator;
use crate::{
    http::{edge::PublicUrls, listener::own_url},
    peers::Peers,
};
use std::{net::SocketAddr, sync::Arc};

/// Lists the endpoints of the mesh: those of this process, which listens at `own`, the services, and the registered agents.
pub(super) fn of_mesh(
    (advertise, public_urls): (&AdvertiseConfig, &PublicUrls),
    own: Vec<SocketAddr>,
    peers: Arc<Peers>,
    services: Arc<ServiceLocator>,
) -> impl Fn() -> Vec<String> + Send + Sync + 'static {
    let own = own.iter().flat_map(|address| [own_url(*address), advertise.endpoint(*address)]);
    let own: Vec<_> = own.chain(public_urls.urls().map(str::to_owned)).collect();
    move || {
        let addresses = services.addresses();
        let agents = peers.cards().into_iter().map(|card| card.endpoint.clone());
        own.iter().cloned().chain(addresses.registry).chain(addresses.board).chain(agents).collect()
    }
}
