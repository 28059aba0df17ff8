//! The accept loop and its end. Owns how many connections there are and the order of the drain; refuses signals and
//! deadlines: the stages come from outside.

use super::accept::{Arriving, accept};
use super::connection;
use super::door::Door;
use super::guard::Guard;
use super::listener::Listener;
use super::measured::Lasting;
use super::peer::Peer;
use super::room::Room;
use super::shutdown::{Shutdown, Stage};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Serves until the shutdown: at [`Stage::Draining`] the listener closes and idle connections end, while requests and
/// streams go on; at [`Stage::Closing`] streams and held replies end; at [`Stage::Aborting`] what is left is cut off.
/// Returns when no connection is left.
pub async fn serve(listener: Listener, room: Arc<Room>, mut shutdown: Shutdown) {
    let guard = Guard::new(listener.bound(), &room.allowed_hosts, &room.allowed_origins);
    let places = room.limits.connections.clamp(1, Semaphore::MAX_PERMITS);
    let free = Arc::new(Semaphore::new(places));
    let door = Arc::new(Door::new(room, guard, shutdown.clone()));
    loop {
        // The place comes first: without one, new connections wait in the kernel's backlog.
        let next = async {
            let place = Arc::clone(&free).acquire_owned().await.ok();
            (accept(&listener).await, place)
        };
        let (incoming, place) = tokio::select! {
            next = next => next,
            () = shutdown.reached(Stage::Draining) => break,
        };
        start(incoming, place, &door);
    }
    drop(listener);
    wait_until_all_left(&free, places).await;
}

fn start(incoming: Arriving, place: Option<OwnedSemaphorePermit>, door: &Arc<Door>) {
    let door = Arc::clone(door);
    let lasting = Lasting::connection(&door.room.meter);
    match incoming {
        Arriving::Tcp(tcp) => drop(tokio::spawn(async move {
            // Of a connection that has broken off already nobody is the peer; no request will come of it.
            let peer = Peer(tcp.peer_addr().ok().map(|address| address.ip()));
            connection::run(tcp, peer, door).await;
            drop((place, lasting));
        })),
        Arriving::Unix(unix) => drop(tokio::spawn(async move {
            connection::run(unix, Peer(None), door).await;
            drop((place, lasting));
        })),
    }
}

/// Every connection holds a place until it is gone; whoever has all places is alone.
async fn wait_until_all_left(free: &Semaphore, places: usize) {
    for _ in 0..places {
        match free.acquire().await {
            Ok(place) => place.forget(),
            Err(_) => return,
        }
    }
}
