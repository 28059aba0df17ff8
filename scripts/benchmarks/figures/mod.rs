//! All figures: key, name, unit, goals, peer and method. The terminal, BENCHMARKS.md and the JSON are written
//! from these lists.

mod cluster;
mod jobs;
mod peers;
mod restart;
mod sandbox;
mod start;
mod streams;

use crate::unit::Unit;

/// A goal of a figure (DESIGN §10).
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    AtMost(f64),
    AtLeast(f64),
    /// At most this many milliseconds plus one `fdatasync` of this disk ([`FSYNC`]).
    AtMostAndFsync(f64),
    /// At least this factor times the figure of a key, or at most, where a smaller value is better.
    Times {
        factor: f64,
        /// The short name of the peer.
        peer: &'static str,
        key: &'static str,
    },
    /// One of them is enough.
    AnyOf(&'static [Goal]),
}

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Figure {
    /// `group.figure`; a peer's is `group.figure.peer`.
    pub(crate) key: &'static str,
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    /// All of them count.
    pub(crate) goals: &'static [Goal],
    /// For a peer: the key of our own figure to compare it with.
    pub(crate) peer_of: Option<&'static str>,
    /// How it is measured, in one line.
    pub(crate) method: &'static str,
}

/// The key of the disk's figure. Some goals add its value.
pub(crate) const FSYNC: &str = "disk.fdatasync";
/// Peers that every run measures: the bare program, the interpreter that the sandbox needs anyway, and our
/// own program on redb and without hash chains.
const PEERS_OF_EACH_RUN: [&str; 4] = ["bare", "plain", "redb", "unchained"];

const fn ours(
    key: &'static str,
    name: &'static str,
    unit: Unit,
    goals: &'static [Goal],
    method: &'static str,
) -> Figure {
    Figure { key, name, unit, goals, peer_of: None, method }
}

const fn peer(key: &'static str, peer_of: &'static str, name: &'static str, method: &'static str) -> Figure {
    Figure { key, name, unit: Unit::Count, goals: &[], peer_of: Some(peer_of), method }
}

pub(crate) const fn times(factor: f64, peer: &'static str, key: &'static str) -> Goal {
    Goal::Times { factor, peer, key }
}

impl Figure {
    /// The unit. A peer has the unit of our own figure.
    pub(crate) fn unit(&self) -> Unit {
        self.peer_of.and_then(find).map_or(self.unit, |figure| figure.unit)
    }

    /// The first part of the key.
    pub(crate) fn group(&self) -> &'static str {
        self.key.split('.').next().unwrap_or(self.key)
    }

    /// Whether it needs `--peers`.
    pub(crate) fn needs_peers(&self) -> bool {
        let name = self.key.rsplit('.').next().unwrap_or_default();
        self.peer_of.is_some() && !PEERS_OF_EACH_RUN.contains(&name)
    }
}

/// Every figure, in the order of the table: peers follow our own figure.
pub(crate) fn all() -> impl Iterator<Item = &'static Figure> {
    let peers_of = |ours: &Figure| {
        let key = ours.key;
        listed().filter(move |figure| figure.peer_of == Some(key))
    };
    listed()
        .filter(|figure| figure.peer_of.is_none())
        .flat_map(move |ours| [ours].into_iter().chain(peers_of(ours)))
}

fn listed() -> impl Iterator<Item = &'static Figure> {
    let ours = [start::FIGURES, jobs::FIGURES, streams::FIGURES, sandbox::FIGURES, restart::FIGURES];
    ours.into_iter().chain([cluster::FIGURES, peers::FIGURES]).flatten()
}

pub(crate) fn find(key: &str) -> Option<&'static Figure> {
    listed().find(|figure| figure.key == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_figure_is_lost_in_the_order_of_the_table() {
        let lost: Vec<_> = listed().filter(|figure| all().all(|other| other.key != figure.key)).collect();
        assert!(lost.is_empty(), "{lost:?}");
        let zeroclaw = all().skip_while(|figure| figure.key != "start.ready").nth(3).map(|figure| figure.key);
        assert_eq!(zeroclaw, Some("start.ready.zeroclaw"));
    }
}
