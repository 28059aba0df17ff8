//! Conditions on `socket` and `setsockopt` for commands that may use the network.
//!
//! Only TCP and UDP are allowed. Other protocols would load kernel modules for any user (SCTP, DCCP, L2TP,
//! MPTCP); socket filters (`SO_ATTACH_FILTER`) and stacked protocols (`TCP_ULP`) are kernel attack surface.
//! Sizes of buffers (`SO_SNDBUF`, `SO_RCVBUF`) are absent: the kernel holds that memory, and no rlimit counts
//! it.

use super::rule::{ArgumentTest, CallAction, LOW, test};

/// `SOCK_CLOEXEC | SOCK_NONBLOCK`.
pub(super) const SOCK_FLAGS: u64 = 0o2_000_000 | 0o4_000;

/// `socket(AF_INET or AF_INET6, …)`: TCP and UDP, by name or as the default protocol of the type.
pub(super) const INTERNET_SOCKETS: CallAction = CallAction::AllowIf(&[
    &[family(libc::AF_INET), kind(libc::SOCK_STREAM), DEFAULT_PROTOCOL],
    &[family(libc::AF_INET), kind(libc::SOCK_STREAM), protocol(libc::IPPROTO_TCP)],
    &[family(libc::AF_INET), kind(libc::SOCK_DGRAM), DEFAULT_PROTOCOL],
    &[family(libc::AF_INET), kind(libc::SOCK_DGRAM), protocol(libc::IPPROTO_UDP)],
    &[family(libc::AF_INET6), kind(libc::SOCK_STREAM), DEFAULT_PROTOCOL],
    &[family(libc::AF_INET6), kind(libc::SOCK_STREAM), protocol(libc::IPPROTO_TCP)],
    &[family(libc::AF_INET6), kind(libc::SOCK_DGRAM), DEFAULT_PROTOCOL],
    &[family(libc::AF_INET6), kind(libc::SOCK_DGRAM), protocol(libc::IPPROTO_UDP)],
]);

/// Allows the listed options of `setsockopt`, by level.
macro_rules! socket_options {
    ($($level:ident: $($option:ident)+;)+) => {
        CallAction::AllowIf(&[$($(&[level(libc::$level), option(libc::$option)],)+)+])
    };
}

/// `setsockopt` on a socket pair: times, credentials.
pub(super) const SOCKET_PAIR_OPTIONS: CallAction = socket_options! {
    SOL_SOCKET: SO_REUSEADDR SO_KEEPALIVE SO_LINGER SO_PASSCRED SO_RCVTIMEO SO_SNDTIMEO;
};

/// The same, and the options that internet clients and servers set.
pub(super) const INTERNET_OPTIONS: CallAction = socket_options! {
    SOL_SOCKET: SO_REUSEADDR SO_KEEPALIVE SO_LINGER SO_PASSCRED SO_RCVTIMEO SO_SNDTIMEO
        SO_BROADCAST SO_REUSEPORT;
    IPPROTO_TCP: TCP_NODELAY TCP_MAXSEG TCP_CORK TCP_KEEPIDLE TCP_KEEPINTVL TCP_KEEPCNT TCP_DEFER_ACCEPT
        TCP_QUICKACK TCP_USER_TIMEOUT TCP_NOTSENT_LOWAT;
    IPPROTO_IP: IP_TOS IP_TTL IP_PKTINFO IP_MTU_DISCOVER IP_RECVERR IP_BIND_ADDRESS_NO_PORT;
    IPPROTO_IPV6: IPV6_UNICAST_HOPS IPV6_MTU_DISCOVER IPV6_RECVERR IPV6_V6ONLY IPV6_RECVPKTINFO IPV6_TCLASS;
};

const DEFAULT_PROTOCOL: ArgumentTest = protocol(0);

const fn family(value: i32) -> ArgumentTest {
    test(0, LOW, value)
}

const fn kind(value: i32) -> ArgumentTest {
    test(1, LOW & !SOCK_FLAGS, value)
}

const fn protocol(value: i32) -> ArgumentTest {
    test(2, LOW, value)
}

const fn level(value: i32) -> ArgumentTest {
    test(1, LOW, value)
}

const fn option(value: i32) -> ArgumentTest {
    test(2, LOW, value)
}
