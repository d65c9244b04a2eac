use super::*;
use protocol::{ids::AgentId, principal::Principal};

const LIMITS: ConnectionLimits = ConnectionLimits {
    max: 8,
    max_without_credential: 6,
    max_per_address: 3,
    max_per_principal: 4,
    reserved_for_person: 1,
};

/// A connection with the request on it that is served, if any.
struct Client(ConnectionGuard, Option<ServedRequest>);

fn connections() -> Connections {
    Connections::new(LIMITS, LocalCallers::default())
}

fn from(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn loopback() -> IpAddr {
    IpAddr::from([127, 0, 0, 1])
}

fn local() -> BudgetHolder {
    BudgetHolder::Principal(Principal::local_user())
}

fn user(name: &str) -> BudgetHolder {
    BudgetHolder::Principal(Principal::User(AgentId::parse(name).unwrap()))
}

impl Connections {
    fn client(&self, address: IpAddr) -> Client {
        Client(self.admit(address).unwrap(), None)
    }
}

impl Client {
    /// Begins a request of `holder`, which is served until [`Client::ends`].
    fn asks(&mut self, holder: &BudgetHolder) -> Result<(), Problem> {
        let request = self.0.begin_request();
        request.note_caller(holder)?;
        self.1 = Some(request);
        Ok(())
    }

    /// Begins a request whose head or body is on its way.
    fn is_slow(&mut self) {
        self.1 = Some(self.0.begin_request());
    }

    fn ends(&mut self) {
        self.1 = None;
    }

    fn is_evicted(&self) -> bool {
        self.0.connection.is_evicted.load(Relaxed)
    }
}

/// `count` connections of `holder` from `address`, which serve nothing.
fn kept(connections: &Connections, count: usize, address: IpAddr, holder: &BudgetHolder) -> Vec<Client> {
    let kept = (0..count).map(|_| {
        let mut client = connections.client(address);
        client.asks(holder).unwrap();
        client.ends();
        client
    });
    kept.collect()
}

#[test]
fn the_limits_follow_from_the_limit_of_open_files() {
    let of = ConnectionLimits::of_open_files;
    let limits = ConnectionLimits {
        max: 768,
        max_without_credential: 576,
        max_per_address: 192,
        max_per_principal: 192,
        reserved_for_person: 48,
    };
    assert_eq!(of(Some(1024)), limits);
    assert_eq!(of(Some(65_536)).max_per_address, 256);
    assert_eq!((of(None).max, of(Some(1 << 30)).max), (20_000, 20_000));
    assert!(of(Some(0)).reserved_for_person > 0);
}

#[test]
fn an_address_has_a_limit_and_its_oldest_idle_connection_gives_way() {
    let connections = connections();
    let mut kept: Vec<_> = (0..3).map(|_| connections.client(from(1))).collect();
    kept[0].asks(&local()).unwrap();
    let mut fourth = connections.client(from(1));
    assert!(!kept[0].is_evicted() && kept[1].is_evicted() && !kept[2].is_evicted());
    kept[2].asks(&local()).unwrap();
    fourth.asks(&local()).unwrap();
    assert!(connections.admit(from(1)).is_none(), "all three are busy");
    assert!(connections.admit(from(2)).is_some(), "another address is not concerned");
    assert_eq!((connections.counts().refused, connections.counts().closed_idle), (1, 1));
    drop((kept, fourth));
    assert_eq!((connections.counts().open, connections.counts().without_credential), (0, 0));
    assert!(connections.0.open().by_holder.is_empty());
}

#[test]
fn connections_with_a_credential_count_for_no_address_and_are_not_closed_for_one_without() {
    let connections = connections();
    let proven = kept(&connections, 4, from(1), &user("anna"));
    assert_eq!(connections.counts().without_credential, 0);
    let _more: Vec<_> = (0..3).map(|_| connections.client(from(1))).collect();
    assert!(
        (2..9).all(|last| connections.admit(from(last)).is_some()),
        "idle ones without a credential give way"
    );
    assert!(proven.iter().all(|client| !client.is_evicted()));
}

#[test]
fn slow_bodies_without_a_credential_lock_nobody_out() {
    let connections = connections();
    for address in [loopback(), from(1)] {
        let slow: Vec<_> = (0..20)
            .filter_map(|_| {
                let mut client = Client(connections.admit(address)?, None);
                client.is_slow();
                Some(client)
            })
            .collect();
        for (holder, address) in [
            (user("anna"), from(2)),
            (local(), loopback()),
            (BudgetHolder::Person, loopback()),
            (user("anna"), from(1)),
        ] {
            let mut client = connections.client(address);
            assert_eq!(client.asks(&holder), Ok(()), "{holder} from {address}");
        }
        drop(slow);
    }
}

#[test]
fn the_address_with_the_most_connections_gives_way_first() {
    let connections = connections();
    let first = connections.client(from(2));
    let many: Vec<_> = (0..20).map(|_| connections.client(loopback())).collect();
    assert!(!first.is_evicted() && many[0].is_evicted());
}

#[test]
fn the_reserve_is_for_callers_with_a_credential() {
    let connections = connections();
    let mut busy: Vec<_> = (1..=6).map(|last| connections.client(from(last))).collect();
    busy.iter_mut().for_each(|client| client.asks(&local()).unwrap());
    let (mut one, mut other) = (connections.client(from(7)), connections.client(loopback()));
    assert_eq!(one.asks(&user("anna")), Ok(()));
    let refused = other.asks(&local()).unwrap_err();
    assert_eq!((refused.reason, refused.message.contains('6')), (Reason::Overloaded, true), "{refused:?}");
    let third = connections.client(from(8));
    assert!(other.is_evicted() && !third.is_evicted(), "what is refused keeps no place");
    drop(busy);
    let mut again = connections.client(loopback());
    assert_eq!(again.asks(&local()), Ok(()));
}

#[test]
fn a_principal_has_a_limit_and_its_oldest_idle_connection_gives_way() {
    let connections = connections();
    let anna = user("anna");
    let mut annas = kept(&connections, 4, from(1), &anna);
    let mut fifth = connections.client(from(2));
    assert_eq!(fifth.asks(&anna), Ok(()), "an idle one gives way");
    assert!(annas[0].is_evicted());
    for client in &mut annas[1..] {
        client.asks(&anna).unwrap();
    }
    let mut sixth = connections.client(from(1));
    let refused = sixth.asks(&anna).unwrap_err();
    assert_eq!(refused.reason, Reason::RateLimited);
    assert!(refused.message.contains("user:anna") && refused.message.contains('4'), "{refused:?}");
    assert_eq!(connections.counts().without_credential, 1, "what is refused has no credential");
    assert_eq!(connections.client(from(1)).asks(&user("bob")), Ok(()), "another one is not concerned");
    fifth.ends();
    assert_eq!(connections.client(from(1)).asks(&anna), Ok(()));
}

#[test]
fn the_person_gets_in_whatever_others_hold() {
    let connections = connections();
    let mut all: Vec<_> = ["anna", "bob"]
        .into_iter()
        .flat_map(|name| vec![user(name); 4])
        .filter_map(|holder| {
            let mut client = connections.client(from(1));
            client.asks(&holder).is_ok().then_some(client)
        })
        .collect();
    assert_eq!(all.len(), 7, "the last one is the person's");
    let mut persons = connections.client(loopback());
    assert_eq!(persons.asks(&BudgetHolder::Person), Ok(()));
    persons.ends();
    let refused = connections.admit(from(2));
    assert!(refused.is_none(), "an idle one of the person's does not give way");
    all.iter_mut().for_each(Client::ends);
    let mut local_users = connections.client(loopback());
    assert_eq!(local_users.asks(&local()), Ok(()), "an idle one gives way");
    assert!(!persons.is_evicted());
}

#[test]
fn the_user_of_this_machine_has_no_limit_per_address() {
    let connections = connections();
    let local: Vec<_> = (0..6).map(|_| connections.client(loopback())).collect();
    assert!(local.iter().all(|client| !client.is_evicted()));
    let _seventh = connections.client(loopback());
    assert!(local[0].is_evicted(), "but the one for all without a credential");
}
