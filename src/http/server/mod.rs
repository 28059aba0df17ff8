//! The accept loop and the drain. `app` decides when each stage of the shutdown begins.

mod accept;
pub(crate) mod client_body;
pub(crate) mod client_socket;
pub(crate) mod connection;
mod handover;
mod kernel_reserve;
pub(crate) mod listener;
pub(crate) mod shutdown;
mod stream_sender;

use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::middleware::host_origin::HostOriginGuard;
use crate::http::middleware::measurement::MeasuredLifetime;
use crate::http::request::peer::{ClientAddress, Peer};
use crate::http::shares::{HeldShare, ShareOwner, ShareRefusal};
use crate::http::v1::batches::result_files;
use accept::{IncomingConnection, accept};
use hyper::HeaderMap;
use kernel_reserve::KernelReserve;
use listener::HttpListener;
use shutdown::{Shutdown, ShutdownStage};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Serves until the shutdown. At [`ShutdownStage::Draining`] the listener closes and idle connections end,
/// while requests and streams continue. At [`ShutdownStage::Closing`] streams and held responses end. At
/// [`ShutdownStage::Aborting`] the rest is cut off. Returns when no connection is left.
pub async fn serve(listener: HttpListener, app: Arc<AppDependencies>, mut shutdown: Shutdown) {
    let guard = HostOriginGuard::new(listener.bound(), &app.allowed_hosts, &app.allowed_origins);
    let stall_limit = Duration::from_secs(app.limits.write_stall_s);
    let places = app.limits.connections.clamp(1, Semaphore::MAX_PERMITS);
    let free = Arc::new(Semaphore::new(places));
    let mut reserve = KernelReserve::new(Arc::clone(&app.kernel_tables));
    let context = Arc::new(ServerContext::new(app, guard, shutdown.clone()));
    drop(tokio::spawn(result_files::resume(Arc::clone(&context))));
    loop {
        // The permit comes first: without one, new connections wait in the kernel's backlog.
        let next = async {
            let place = Arc::clone(&free).acquire_owned().await.ok();
            (accept(&listener, &mut reserve, stall_limit).await, place)
        };
        let (incoming, place) = tokio::select! {
            next = next => next,
            () = shutdown.reached(ShutdownStage::Draining) => break,
        };
        start(incoming, place, &context);
    }
    drop(listener);
    wait_until_all_left(&free, places).await;
}

fn start(incoming: IncomingConnection, place: Option<OwnedSemaphorePermit>, context: &Arc<ServerContext>) {
    let context = Arc::clone(context);
    let lasting = MeasuredLifetime::connection(&context.app.meter);
    match incoming {
        IncomingConnection::Tcp(tcp) => drop(tokio::spawn(async move {
            // A connection that has broken off has no peer address and sends no request.
            let peer = Peer(tcp.peer_addr().ok().map(|address| address.ip()));
            match connection_share(&context, peer) {
                Ok(_share) => connection::run(tcp, peer, context).await,
                Err(_) => connection::refuse(tcp, context.app.limits.connections).await,
            }
            drop((place, lasting));
        })),
        IncomingConnection::Unix(unix) => drop(tokio::spawn(async move {
            connection::run(unix, Peer(None), context).await;
            drop((place, lasting));
        })),
    }
}

/// The share of an address of another machine: a proxy on this one connects for many.
fn connection_share(context: &ServerContext, peer: Peer) -> Result<Option<HeldShare>, ShareRefusal> {
    let owner = ShareOwner::of_address(ClientAddress::of(peer, &HeaderMap::new()));
    owner.map(|owner| HeldShare::place(&context.connections, Some(owner))).transpose()
}

/// Each connection holds a permit. All permits are free when no connection is left.
async fn wait_until_all_left(free: &Semaphore, places: usize) {
    for _ in 0..places {
        match free.acquire().await {
            Ok(place) => place.forget(),
            Err(_) => return,
        }
    }
}
