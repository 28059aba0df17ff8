//! Which due webhook deliveries are sent next. Users take turns: the next one is the longest overdue of the
//! user with the fewest deliveries in progress. A receiver (a host and port) gets one delivery of a user at a
//! time, and the ports of a host share a limit.

use super::fair_share::{FairShare, Holdings};
use super::id::{DeliveryId, UserId};
use super::webhook::host_of_receiver;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Deliveries in progress at once; a quarter more for users who have none.
const DELIVERIES: usize = 1_536;
/// All places, each of which may have a connection.
pub const DELIVERY_PLACES: usize = DELIVERIES + DELIVERIES / 4;
/// Deliveries of a user in progress at once.
const USER_DELIVERIES: usize = 1_024;
/// Deliveries to a host in progress at once; a quarter more for users who have none there.
const HOST_DELIVERIES: usize = 64;
/// Deliveries of a user to a host in progress at once, whatever the ports.
const USER_HOST_DELIVERIES: usize = 8;
/// Bytes of payloads in memory above which no delivery begins; a quarter more for users who hold none.
const PAYLOAD_BYTES: usize = 64 * 1024 * 1024;
/// The same for the payloads of a user.
const USER_PAYLOAD_BYTES: usize = 16 * 1024 * 1024;

/// A due delivery, as far as turns need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueDelivery {
    /// The delivery.
    pub id: DeliveryId,
    /// Its owner.
    pub user: UserId,
    /// Host and port of the receiver.
    pub receiver: String,
    /// Since when it has been due, unix milliseconds.
    pub due_ms: u64,
}

/// The deliveries in progress.
#[derive(Debug, Clone, Default)]
pub struct DeliveryTurns {
    users: Holdings<UserId>,
    hosts: BTreeMap<String, Holdings<UserId>>,
    receivers: BTreeMap<UserId, BTreeSet<String>>,
    payload_bytes: Holdings<UserId>,
}

impl DeliveryTurns {
    /// Whether a delivery of this user to this receiver may begin now.
    pub fn admits(&self, user: UserId, receiver: &str) -> bool {
        if !self.admits_user(user) || self.receivers.get(&user).is_some_and(|own| own.contains(receiver)) {
            return false;
        }
        self.hosts.get(host_of_receiver(receiver)).is_none_or(|host| {
            let held = host.of(user);
            held < USER_HOST_DELIVERIES && FairShare::of(HOST_DELIVERIES).admits(held, host.total())
        })
    }

    fn admits_user(&self, user: UserId) -> bool {
        let (held, bytes) = (self.users.of(user), self.payload_bytes.of(user));
        held < USER_DELIVERIES
            && bytes < USER_PAYLOAD_BYTES
            && FairShare::of(DELIVERIES).admits(held, self.users.total())
            && FairShare::of(PAYLOAD_BYTES).admits(bytes, self.payload_bytes.total())
    }

    /// A delivery begins.
    pub fn take(&mut self, user: UserId, receiver: &str) {
        if self.receivers.entry(user).or_default().insert(receiver.to_owned()) {
            self.users.take(user, 1);
            self.hosts.entry(host_of_receiver(receiver).to_owned()).or_default().take(user, 1);
        }
    }

    /// A delivery has ended.
    pub fn give_back(&mut self, user: UserId, receiver: &str) {
        let Some(own) = self.receivers.get_mut(&user) else { return };
        if !own.remove(receiver) {
            return;
        }
        if own.is_empty() {
            self.receivers.remove(&user);
        }
        self.users.give_back(user, 1);
        let host = host_of_receiver(receiver);
        if let Some(held) = self.hosts.get_mut(host) {
            held.give_back(user, 1);
            if held.total() == 0 {
                self.hosts.remove(host);
            }
        }
    }

    /// A payload of this many bytes is in memory.
    pub fn take_bytes(&mut self, user: UserId, bytes: usize) {
        self.payload_bytes.take(user, bytes);
    }

    /// A payload of this many bytes is sent or dropped.
    pub fn give_back_bytes(&mut self, user: UserId, bytes: usize) {
        self.payload_bytes.give_back(user, bytes);
    }

    /// Number of deliveries in progress.
    pub fn total(&self) -> usize {
        self.users.total()
    }

    /// The users and receivers of the deliveries in progress.
    pub fn receivers(&self) -> impl Iterator<Item = (UserId, &str)> {
        self.receivers.iter().flat_map(|(user, own)| own.iter().map(|receiver| (*user, receiver.as_str())))
    }

    /// The next of these deliveries in order, at most `max`.
    pub fn pick(&self, mut due: Vec<DueDelivery>, max: usize) -> Vec<DueDelivery> {
        due.sort_by_key(|delivery| (delivery.due_ms, delivery.id));
        let mut waiting: BTreeMap<UserId, VecDeque<DueDelivery>> = BTreeMap::new();
        for delivery in due {
            waiting.entry(delivery.user).or_default().push_back(delivery);
        }
        let (mut turns, mut picked) = (self.clone(), Vec::new());
        while picked.len() < max {
            let first = |due: &VecDeque<DueDelivery>| due.front().map(|next| (next.due_ms, next.id));
            let next = waiting.iter().min_by_key(|(user, due)| (turns.users.of(**user), first(due)));
            let Some(user) = next.map(|(user, _)| *user) else { break };
            let next = waiting.get_mut(&user).and_then(VecDeque::pop_front);
            let Some(next) = next.filter(|_| turns.admits_user(user)) else {
                waiting.remove(&user);
                continue;
            };
            if turns.admits(user, &next.receiver) {
                turns.take(user, &next.receiver);
                picked.push(next);
            }
        }
        picked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: UserId = UserId(1);
    const BOB: UserId = UserId(2);

    fn due(number: u128, user: UserId, receiver: &str) -> DueDelivery {
        let due_ms = u64::try_from(number).expect("small");
        DueDelivery { id: DeliveryId::from_bits(number), user, receiver: receiver.to_owned(), due_ms }
    }

    fn numbers(picked: &[DueDelivery]) -> Vec<u64> {
        picked.iter().map(|delivery| delivery.due_ms).collect()
    }

    /// Turns with this many deliveries of a user, each to a host of its own.
    fn busy(user: UserId, count: usize) -> DeliveryTurns {
        let mut turns = DeliveryTurns::default();
        (0..count).for_each(|host| turns.take(user, &format!("u{}-h{host}.test", user.0)));
        turns
    }

    #[test]
    fn p7_users_take_turns_and_the_longest_overdue_of_a_user_is_the_first() {
        let rows = || {
            let ann = (1..=4).map(|n| due(n, ANN, &format!("h{n}.test")));
            ann.chain([due(9, BOB, "b.test"), due(8, BOB, "c.test")]).collect()
        };
        assert_eq!(numbers(&DeliveryTurns::default().pick(rows(), 10)), [1, 8, 2, 9, 3, 4]);
        assert_eq!(numbers(&busy(ANN, 1).pick(rows(), 3)), [8, 1, 9]);
    }

    #[test]
    fn a_receiver_gets_one_delivery_of_each_user_at_a_time() {
        let rows = vec![due(1, ANN, "a.test"), due(2, ANN, "a.test"), due(3, BOB, "a.test")];
        assert_eq!(numbers(&DeliveryTurns::default().pick(rows, 10)), [1, 3]);
        let mut turns = DeliveryTurns::default();
        turns.take(ANN, "a.test");
        assert!(
            !turns.admits(ANN, "a.test") && turns.admits(ANN, "a.test:81") && turns.admits(BOB, "a.test")
        );
        turns.give_back(ANN, "a.test");
        assert!(turns.admits(ANN, "a.test"));
        assert!(turns.hosts.is_empty() && turns.receivers.is_empty() && turns.total() == 0);
    }

    #[test]
    fn p7_the_ports_of_a_host_are_one_and_leave_room_for_other_users_and_hosts() {
        let ports = |user, first: u128| {
            (first..first + 200).map(move |port| due(port, user, &format!("[::1]:{port}")))
        };
        let mut rows: Vec<_> = ports(ANN, 1_000).collect();
        let picked = DeliveryTurns::default().pick(rows.clone(), 100);
        assert_eq!(picked.len(), USER_HOST_DELIVERIES);
        rows.extend([due(5_000, BOB, "[::1]:7"), due(5_001, ANN, "a.test")]);
        let picked = numbers(&DeliveryTurns::default().pick(rows, 100));
        assert!(picked.contains(&5_000) && picked.contains(&5_001), "{picked:?}");
        let crowd: Vec<_> =
            (10..110).flat_map(|user| ports(UserId(user), u128::from(user) * 1_000)).collect();
        assert_eq!(DeliveryTurns::default().pick(crowd, 10_000).len(), HOST_DELIVERIES / 4 * 5);
    }

    #[test]
    fn p8_deliveries_are_bounded_and_a_user_without_any_finds_room() {
        let rows = |user: UserId| (1..=3).map(move |n| due(n, user, &format!("new{n}.test"))).collect();
        let ann = busy(ANN, USER_DELIVERIES);
        assert!(ann.pick(rows(ANN), 9).is_empty(), "a user has a limit");
        assert_eq!(ann.pick(rows(BOB), 9).len(), 3);
        let mut full = ann;
        (0..DELIVERIES - USER_DELIVERIES).for_each(|host| full.take(UserId(3), &format!("x{host}.test")));
        assert_eq!(numbers(&full.pick(rows(BOB), 9)), [1], "one of the reserve");
        let others = u32::try_from(DELIVERIES / 4).expect("few");
        (10..10 + others).for_each(|user| full.take(UserId(user), "y.test:1"));
        assert!(full.pick(rows(BOB), 9).is_empty(), "all are taken");
    }

    #[test]
    fn p8_payloads_in_memory_hold_back_their_user_and_not_others() {
        let mut turns = busy(ANN, 1);
        turns.take_bytes(ANN, USER_PAYLOAD_BYTES);
        assert!(!turns.admits(ANN, "a.test") && turns.admits(BOB, "a.test"));
        (10..14).for_each(|user| turns.take_bytes(UserId(user), USER_PAYLOAD_BYTES));
        assert!(!turns.admits(BOB, "a.test"));
        turns.give_back_bytes(ANN, USER_PAYLOAD_BYTES);
        assert!(turns.admits(BOB, "a.test"));
    }
}
