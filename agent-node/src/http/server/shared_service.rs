//! One set of routes per thread for all listeners of a server. A node has a listener per agent, and actix would build the
//! routes once for each.

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

/// Identifies one server, whose listeners share a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ServerId(usize);

impl ServerId {
    /// A new id, unique in this process.
    pub(super) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

thread_local! {
    static SERVICES: RefCell<Vec<(ServerId, Weak<dyn Any>)>> = const { RefCell::new(Vec::new()) };
}

type ServiceCell<S> = Rc<OnceCell<Rc<S>>>;

/// The cell with this thread's service for `server`, empty if it is not built yet.
fn cell<S: 'static>(server: ServerId) -> ServiceCell<S> {
    SERVICES.with_borrow_mut(|services| {
        services.retain(|(_, cell)| cell.strong_count() > 0);
        let known = services.iter().find(|(of, _)| *of == server).and_then(|(_, cell)| cell.upgrade());
        known.and_then(|cell| cell.downcast().ok()).unwrap_or_else(|| {
            let cell: ServiceCell<S> = Rc::default();
            let any: Rc<dyn Any> = cell.clone();
            services.push((server, Rc::downgrade(&any)));
            cell
        })
    })
}

/// Builds a service for a thread's first listener and returns the same one for the server's other listeners.
pub(super) struct SharedServiceFactory<M, F> {
    server: ServerId,
    make: Rc<M>,
    made: PhantomData<F>,
}

impl<M, F> SharedServiceFactory<M, F> {
    /// A factory for the listeners of `server`; `make` builds the service.
    pub(super) fn new(server: ServerId, make: M) -> Self {
        Self { server, make: Rc::new(make), made: PhantomData }
    }
}

impl<M, I, F, R> ServiceFactory<R> for SharedServiceFactory<M, (I, F)>
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
    type Service = SharedService<F::Service>;
    type InitError = F::InitError;
    type Future = LocalBoxFuture<'static, Result<Self::Service, F::InitError>>;

    fn new_service(&self, config: F::Config) -> Self::Future {
        let (cell, make) = (cell::<F::Service>(self.server), Rc::clone(&self.make));
        Box::pin(async move {
            let made = cell
                .get_or_try_init(|| async { make().into_factory().new_service(config).await.map(Rc::new) });
            let service = made.await?.clone();
            Ok(SharedService { service, _cell: cell })
        })
    }
}

pub(super) struct SharedService<S> {
    service: Rc<S>,
    /// Keeps the service for further listeners.
    _cell: ServiceCell<S>,
}

impl<S: Service<R>, R> Service<R> for SharedService<S> {
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
