//! One set of routes a thread, however many sockets it serves: a node listens for each of its agents, and actix would
//! build the routes anew for every one of them.

use actix_service::{IntoServiceFactory, Service, ServiceFactory};
use futures_util::future::LocalBoxFuture;
use std::{
    any::Any,
    cell::RefCell,
    marker::PhantomData,
    rc::{Rc, Weak},
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll},
};
use tokio::sync::OnceCell;

/// Names one server; its sockets share what they serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Group(usize);

impl Group {
    /// One that no other server has.
    pub(super) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

thread_local! {
    static MADE: RefCell<Vec<(Group, Weak<dyn Any>)>> = const { RefCell::new(Vec::new()) };
}

type Slot<S> = Rc<OnceCell<Rc<S>>>;

/// What this thread serves for `group`, or where it will be.
fn slot<S: 'static>(group: Group) -> Slot<S> {
    MADE.with_borrow_mut(|made| {
        made.retain(|(_, slot)| slot.strong_count() > 0);
        let known = made.iter().find(|(of, _)| *of == group).and_then(|(_, slot)| slot.upgrade());
        known.and_then(|slot| slot.downcast().ok()).unwrap_or_else(|| {
            let slot: Slot<S> = Rc::default();
            let any: Rc<dyn Any> = slot.clone();
            made.push((group, Rc::downgrade(&any)));
            slot
        })
    })
}

/// Makes a service at the first socket of a thread, and hands the same to all others of its group.
pub(super) struct Joint<M, F> {
    group: Group,
    make: Rc<M>,
    made: PhantomData<F>,
}

impl<M, F> Joint<M, F> {
    /// What `make` builds, for the sockets of `group`.
    pub(super) fn new(group: Group, make: M) -> Self {
        Self { group, make: Rc::new(make), made: PhantomData }
    }
}

impl<M, I, F, R> ServiceFactory<R> for Joint<M, (I, F)>
where
    M: Fn() -> I + 'static,
    I: IntoServiceFactory<F, R>,
    F: ServiceFactory<R> + 'static,
    F::Config: 'static,
    F::Service: 'static,
{
    type Response = F::Response;
    type Error = F::Error;
    type Config = F::Config;
    type Service = Share<F::Service>;
    type InitError = F::InitError;
    type Future = LocalBoxFuture<'static, Result<Self::Service, F::InitError>>;

    fn new_service(&self, config: F::Config) -> Self::Future {
        let (slot, make) = (slot::<F::Service>(self.group), Rc::clone(&self.make));
        Box::pin(async move {
            let made = slot
                .get_or_try_init(|| async { make().into_factory().new_service(config).await.map(Rc::new) });
            let service = made.await?.clone();
            Ok(Share { service, _slot: slot })
        })
    }
}

/// One socket's share of a service.
pub(super) struct Share<S> {
    service: Rc<S>,
    /// Kept for the sockets to come.
    _slot: Slot<S>,
}

impl<S: Service<R>, R> Service<R> for Share<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&self, request: R) -> S::Future {
        self.service.call(request)
    }
}
