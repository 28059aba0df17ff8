//! Which sockets commands may make where the operator allows the network, and which of their traits they may set.
//!
//! Owns: the conditions on `socket` and `setsockopt`. Refuses: protocols whose modules the kernel would load for anybody
//! (SCTP, DCCP, L2TP, MPTCP), programs in the kernel (`SO_ATTACH_FILTER`), and what stacks protocols (`TCP_ULP`).

use super::allow::{LOW, SOCK_FLAGS};
use super::rule::{Outcome, Test};

/// `socket(AF_INET or AF_INET6, …)`: TCP and UDP, by name or as what the kind means anyway.
pub(super) const INTERNET: Outcome = Outcome::AllowIf(&[
    &[family(libc::AF_INET), kind(libc::SOCK_STREAM), ANY_PROTOCOL],
    &[family(libc::AF_INET), kind(libc::SOCK_STREAM), protocol(libc::IPPROTO_TCP)],
    &[family(libc::AF_INET), kind(libc::SOCK_DGRAM), ANY_PROTOCOL],
    &[family(libc::AF_INET), kind(libc::SOCK_DGRAM), protocol(libc::IPPROTO_UDP)],
    &[family(libc::AF_INET6), kind(libc::SOCK_STREAM), ANY_PROTOCOL],
    &[family(libc::AF_INET6), kind(libc::SOCK_STREAM), protocol(libc::IPPROTO_TCP)],
    &[family(libc::AF_INET6), kind(libc::SOCK_DGRAM), ANY_PROTOCOL],
    &[family(libc::AF_INET6), kind(libc::SOCK_DGRAM), protocol(libc::IPPROTO_UDP)],
]);

const ANY_PROTOCOL: Test = protocol(0);

/// `setsockopt` on a socket pair: sizes, times, credentials.
pub(super) const SOCKET_TRAITS: Outcome = Outcome::AllowIf(&[
    &[level(libc::SOL_SOCKET), option(libc::SO_REUSEADDR)],
    &[level(libc::SOL_SOCKET), option(libc::SO_SNDBUF)],
    &[level(libc::SOL_SOCKET), option(libc::SO_RCVBUF)],
    &[level(libc::SOL_SOCKET), option(libc::SO_KEEPALIVE)],
    &[level(libc::SOL_SOCKET), option(libc::SO_LINGER)],
    &[level(libc::SOL_SOCKET), option(libc::SO_PASSCRED)],
    &[level(libc::SOL_SOCKET), option(libc::SO_RCVTIMEO)],
    &[level(libc::SOL_SOCKET), option(libc::SO_SNDTIMEO)],
]);

/// The same, and what clients and servers of the internet set.
pub(super) const INTERNET_TRAITS: Outcome = Outcome::AllowIf(&[
    &[level(libc::SOL_SOCKET), option(libc::SO_REUSEADDR)],
    &[level(libc::SOL_SOCKET), option(libc::SO_SNDBUF)],
    &[level(libc::SOL_SOCKET), option(libc::SO_RCVBUF)],
    &[level(libc::SOL_SOCKET), option(libc::SO_KEEPALIVE)],
    &[level(libc::SOL_SOCKET), option(libc::SO_LINGER)],
    &[level(libc::SOL_SOCKET), option(libc::SO_PASSCRED)],
    &[level(libc::SOL_SOCKET), option(libc::SO_RCVTIMEO)],
    &[level(libc::SOL_SOCKET), option(libc::SO_SNDTIMEO)],
    &[level(libc::SOL_SOCKET), option(libc::SO_BROADCAST)],
    &[level(libc::SOL_SOCKET), option(libc::SO_REUSEPORT)],
    &[level(libc::IPPROTO_TCP), option(libc::TCP_NODELAY)],
    &[level(libc::IPPROTO_TCP), option(libc::TCP_MAXSEG)],
    &[level(libc::IPPROTO_TCP), option(libc::TCP_CORK)],
    &[level(libc::IPPROTO_TCP), option(libc::TCP_KEEPIDLE)],
    &[level(libc::IPPROTO_TCP), option(libc::TCP_KEEPINTVL)],
    &[level(libc::IPPROTO_TCP), option(libc::TCP_KEEPCNT)],
    &[level(libc::IPPROTO_TCP), option(libc::TCP_DEFER_ACCEPT)],
    &[level(libc::IPPROTO_TCP), option(libc::TCP_QUICKACK)],
    &[level(libc::IPPROTO_TCP), option(libc::TCP_USER_TIMEOUT)],
    &[level(libc::IPPROTO_TCP), option(libc::TCP_NOTSENT_LOWAT)],
    &[level(libc::IPPROTO_IP), option(libc::IP_TOS)],
    &[level(libc::IPPROTO_IP), option(libc::IP_TTL)],
    &[level(libc::IPPROTO_IP), option(libc::IP_PKTINFO)],
    &[level(libc::IPPROTO_IP), option(libc::IP_MTU_DISCOVER)],
    &[level(libc::IPPROTO_IP), option(libc::IP_RECVERR)],
    &[level(libc::IPPROTO_IP), option(libc::IP_BIND_ADDRESS_NO_PORT)],
    &[level(libc::IPPROTO_IPV6), option(libc::IPV6_UNICAST_HOPS)],
    &[level(libc::IPPROTO_IPV6), option(libc::IPV6_MTU_DISCOVER)],
    &[level(libc::IPPROTO_IPV6), option(libc::IPV6_RECVERR)],
    &[level(libc::IPPROTO_IPV6), option(libc::IPV6_V6ONLY)],
    &[level(libc::IPPROTO_IPV6), option(libc::IPV6_RECVPKTINFO)],
    &[level(libc::IPPROTO_IPV6), option(libc::IPV6_TCLASS)],
]);

const fn test(argument: u8, mask: u64, value: i32) -> Test {
    Test { argument, mask, value: value.unsigned_abs() as u64 }
}

const fn family(value: i32) -> Test {
    test(0, LOW, value)
}

const fn kind(value: i32) -> Test {
    test(1, LOW & !SOCK_FLAGS, value)
}

const fn protocol(value: i32) -> Test {
    test(2, LOW, value)
}

const fn level(value: i32) -> Test {
    test(1, LOW, value)
}

const fn option(value: i32) -> Test {
    test(2, LOW, value)
}
