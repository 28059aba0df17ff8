//! The accept loop and the drain. `app` decides when each stage of the shutdown begins.

mod accept;
mod activity;
pub(crate) mod client_body;
pub(crate) mod client_socket;
pub(crate) mod connection;
pub(crate) mod connection_table;
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
use client_socket::SocketState;
use connection_table::{ConnectionTable, connection_places};
use hyper::HeaderMap;
use kernel_reserve::KernelReserve;
use listener::HttpListener;
use shutdown::{Shutdown, ShutdownStage};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// Serves until the shutdown. At [`ShutdownStage::Draining`] the listener closes and idle connections end,
/// while requests and streams continue. At [`ShutdownStage::Closing`] streams and held responses end. At
/// [`ShutdownStage::Aborting`] the rest is cut off. Returns when no connection is left.
pub async fn serve(listener: HttpListener, app: Arc<AppDependencies>, mut shutdown: Shutdown) {
    let guard = HostOriginGuard::new(listener.bound(), &app.allowed_hosts, &app.allowed_origins);
    let stall_limit = Duration::from_secs(app.limits.write_stall_s);
    let (places, wanted) = (connection_places(&app.limits), app.limits.connections);
    if places < wanted {
        tracing::warn!(places, "LimitNOFILE allows fewer connections than limits.connections = {wanted}");
    }
    let connections = ConnectionTable::new(places);
    let mut reserve = KernelReserve::new(Arc::clone(&app.kernel_tables), Arc::clone(&connections));
    let context = Arc::new(ServerContext::new(app, guard, shutdown.clone()));
    drop(tokio::spawn(result_files::resume(Arc::clone(&context))));
    loop {
        // While all places are taken, one connection waits here and the others in the kernel's backlog.
        let next = async {
            let incoming = accept(&listener, &mut reserve, stall_limit).await;
            let share = connection_share(&context, incoming.peer());
            let is_refused = share.is_err();
            let place = if is_refused { connections.free_place() } else { Some(connections.place().await) };
            (incoming, share, place)
        };
        let (incoming, share, place) = tokio::select! {
            next = next => next,
            () = shutdown.reached(ShutdownStage::Draining) => break,
        };
        // A refused client gets an answer only while there is a place for that.
        let Some(place) = place else { continue };
        let (peer, context) = (incoming.peer(), Arc::clone(&context));
        let state = SocketState::default();
        if let Some(holder) = address_of(peer) {
            state.set_holder(holder);
        }
        match incoming {
            IncomingConnection::Tcp(tcp) => {
                connections.spawn(place, state.clone(), move || run(tcp, peer, share, state, context));
            }
            IncomingConnection::Unix(unix) => {
                connections.spawn(place, state.clone(), move || run(unix, peer, share, state, context));
            }
        }
    }
    drop(listener);
    connections.wait_until_all_left().await;
}

async fn run<IO>(
    io: IO,
    peer: Peer,
    share: Result<Option<HeldShare>, ShareRefusal>,
    state: SocketState,
    context: Arc<ServerContext>,
) where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let _lasting = MeasuredLifetime::connection(&context.app.meter);
    match share {
        Ok(_share) => connection::run(io, peer, state, context).await,
        Err(_) => connection::refuse(io, context.app.limits.connections).await,
    }
}

/// Whose a connection is before its first request: nobody's, if a proxy on this machine may have opened it.
fn address_of(peer: Peer) -> Option<ShareOwner> {
    ShareOwner::of_address(ClientAddress::of(peer, &HeaderMap::new()))
}

/// The share of an address of another machine: a proxy on this one connects for many.
fn connection_share(context: &ServerContext, peer: Peer) -> Result<Option<HeldShare>, ShareRefusal> {
    address_of(peer).map(|owner| HeldShare::place(&context.connections, Some(owner))).transpose()
}
