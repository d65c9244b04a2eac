use super::*;
use proptest::prelude::*;

/// What somebody tries. `behind`: computed from the record as it stood that many writes ago, so that it races.
#[derive(Debug, Clone)]
enum Try {
    Claim { who: usize, behind: usize },
    Renew { who: usize, behind: usize },
    End { who: usize, behind: usize, completes: bool },
    Expire { behind: usize },
    Pass { ms: u64 },
    Restart,
}

fn tries() -> impl Strategy<Value = Vec<Try>> {
    let (who, behind) = (0usize..4, 0usize..3);
    let one = prop_oneof![
        4 => (who.clone(), behind.clone()).prop_map(|(who, behind)| Try::Claim { who, behind }),
        2 => (who.clone(), behind.clone()).prop_map(|(who, behind)| Try::Renew { who, behind }),
        2 => (who, behind.clone(), proptest::bool::weighted(0.1))
            .prop_map(|(who, behind, completes)| Try::End { who, behind, completes }),
        2 => behind.prop_map(|behind| Try::Expire { behind }),
        3 => (0u64..150).prop_map(|ms| Try::Pass { ms }),
        1 => Just(Try::Restart),
    ];
    proptest::collection::vec(one, 1..80)
}

/// A claim, its history, and who believes to hold which epoch.
#[derive(Default)]
struct World {
    now: NodeTime,
    head: Revision,
    history: Vec<Stands>,
    lease: Option<Lease>,
    believed: [Option<Revision>; 4],
}

const LEASE: Duration = Duration::from_millis(100);

impl World {
    fn seen(&self, behind: usize) -> Option<&Stands> {
        self.history.len().checked_sub(1 + behind).map(|at| &self.history[at])
    }

    /// The store's compare-and-swap.
    fn swap(&mut self, swap: Swap) -> Option<Revision> {
        let stands = self.history.last().map_or(0, |stands| stands.revision);
        (stands == swap.expected).then(|| {
            self.head += 2;
            self.history.push(Stands { revision: self.head, row: swap.row });
            self.head
        })
    }

    fn step(&mut self, one: Try) -> Result<(), TestCaseError> {
        let who = |who: usize| AgentId::parse(&format!("b-{who}")).unwrap();
        let by = |at: usize| Principal::Agent(who(at));
        let before = self.history.last().cloned();
        match one {
            Try::Pass { ms } => self.now = self.now + Duration::from_millis(ms),
            Try::Restart => {
                let held = before.filter(|stands| stands.row.state == Standing::Held);
                self.lease = held.map(|s| Lease { epoch: s.revision, until: self.now + LEASE });
            }
            Try::Claim { who: at, behind } => {
                let seen = self.seen(behind);
                let clocks = (self.now, WallTime(0));
                if let Ok(swap) = claim(seen, self.lease, &by(at), &who(at), LEASE, clocks)
                    && let Some(epoch) = self.swap(swap)
                {
                    if let Some(before) = before {
                        prop_assert!(epoch > before.epoch(), "an epoch did not grow");
                        let is_over = matches!(before.row.state, Standing::Completed | Standing::Failed);
                        prop_assert!(!is_over, "work that is over was taken again");
                        let ran = before.row.state == Standing::Held;
                        let is_due = self.lease.is_some_and(|lease| lease.until <= self.now);
                        prop_assert!(!ran || is_due, "taken while a lease was running");
                    }
                    self.lease = Some(Lease { epoch, until: self.now + LEASE });
                    self.believed[at] = Some(epoch);
                }
            }
            Try::Renew { who: at, behind } => {
                let Some(epoch) = self.believed[at] else { return Ok(()) };
                if renew(self.seen(behind), &by(at), epoch).is_ok() && behind == 0 {
                    let before = before.unwrap();
                    prop_assert_eq!((before.revision, before.row.state), (epoch, Standing::Held));
                    prop_assert_eq!(before.row.holder, who(at));
                    self.lease = Some(Lease { epoch, until: self.now + LEASE });
                }
            }
            Try::End { who: at, behind, completes } => {
                let Some(epoch) = self.believed[at] else { return Ok(()) };
                let standing = match (completes, at % 2) {
                    (true, 0) => Standing::Completed,
                    (true, _) => Standing::Failed,
                    (false, _) => Standing::Released,
                };
                if let Ok(Some(swap)) = end(self.seen(behind), &by(at), epoch, standing, WallTime(0))
                    && self.swap(swap).is_some()
                {
                    let before = before.unwrap();
                    prop_assert_eq!((before.revision, before.row.state), (epoch, Standing::Held));
                    prop_assert_eq!(before.row.holder, who(at), "a fenced write won");
                }
            }
            Try::Expire { behind } => {
                let (Some(seen), Some(lease)) = (self.seen(behind), self.lease) else { return Ok(()) };
                if let Some(swap) = expire(seen, lease, self.now, WallTime(0))
                    && self.swap(swap).is_some()
                {
                    prop_assert!(lease.until <= self.now && before.unwrap().revision == lease.epoch);
                }
            }
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn at_most_one_holds_epochs_grow_and_fenced_writes_never_win(tries in tries()) {
        let mut world = World::default();
        for one in tries {
            world.step(one)?;
        }
        let mut epochs: Vec<_> = world.history.iter().filter(|s| s.row.state == Standing::Held).map(Stands::epoch).collect();
        let won = epochs.len();
        epochs.dedup();
        prop_assert_eq!(epochs.len(), won);
        prop_assert!(epochs.is_sorted());
        let ended = world.history.iter().filter(|s| s.row.state != Standing::Held);
        for stands in ended {
            prop_assert!(epochs.contains(&stands.epoch()) && stands.epoch() < stands.revision);
        }
    }
}

#[test]
fn a_stranger_with_the_right_epoch_is_not_the_holder() {
    let holder = AgentId::parse("b-1").unwrap();
    let by = Principal::Agent(holder.clone());
    let swap = claim(None, None, &by, &holder, LEASE, (NodeTime(0), WallTime(0))).unwrap();
    let stands = Stands { revision: 7, row: swap.row };
    assert_eq!(renew(Some(&stands), &Principal::local_user(), 7).unwrap_err().reason, Reason::Forbidden);
    assert_eq!(renew(Some(&stands), &by, 6).unwrap_err().reason, Reason::Fenced);
    assert_eq!(renew(None, &by, 6).unwrap_err().reason, Reason::ClaimNotFound);
    let ended = end(Some(&stands), &by, 7, Standing::Completed, WallTime(0)).unwrap().unwrap();
    let stands = Stands { revision: 9, row: ended.row };
    assert_eq!(end(Some(&stands), &by, 7, Standing::Completed, WallTime(0)), Ok(None));
    assert_eq!(
        end(Some(&stands), &by, 7, Standing::Released, WallTime(0)).unwrap_err().reason,
        Reason::Fenced
    );
    let late = claim(Some(&stands), None, &by, &holder, LEASE, (NodeTime(0), WallTime(0)));
    assert_eq!(late.unwrap_err().reason, Reason::AlreadyClaimed);
}
