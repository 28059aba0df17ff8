//! Public and private network addresses. Names are not resolved here: the caller checks the very address that
//! it connects to.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 ranges without public services (IANA special-purpose registry): network and prefix length.
const SPECIAL_V4: &[(Ipv4Addr, u8)] = &[
    (Ipv4Addr::UNSPECIFIED, 8),            // this network, unspecified
    (Ipv4Addr::new(10, 0, 0, 0), 8),       // private
    (Ipv4Addr::new(100, 64, 0, 0), 10),    // carriers' NAT
    (Ipv4Addr::new(127, 0, 0, 0), 8),      // loopback
    (Ipv4Addr::new(168, 63, 129, 16), 32), // Azure's host
    (Ipv4Addr::new(169, 254, 0, 0), 16),   // link-local, clouds' metadata
    (Ipv4Addr::new(172, 16, 0, 0), 12),    // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),     // protocol assignments
    (Ipv4Addr::new(192, 0, 2, 0), 24),     // documentation
    (Ipv4Addr::new(192, 88, 99, 0), 24),   // 6to4 relays
    (Ipv4Addr::new(192, 168, 0, 0), 16),   // private
    (Ipv4Addr::new(198, 18, 0, 0), 15),    // benchmarks
    (Ipv4Addr::new(198, 51, 100, 0), 24),  // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),   // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 4),      // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4),      // reserved, broadcast
];

/// The IPv6 range for public addresses.
const GLOBAL_V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Special ranges inside [`GLOBAL_V6`]. All other forms that embed an IPv4 address (mapped, compatible,
/// NAT64) are outside.
const SPECIAL_V6: &[(Ipv6Addr, u8)] = &[
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocol assignments: Teredo, benchmarks, ORCHID
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation
];

/// Whether the address is public.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !SPECIAL_V4.iter().any(|(network, prefix)| shares(32, *prefix, *network, v4)),
        IpAddr::V6(v6) => {
            let within = |(network, prefix): &(Ipv6Addr, u8)| shares(128, *prefix, *network, v6);
            within(&GLOBAL_V6) && !SPECIAL_V6.iter().any(within)
        }
    }
}

/// Whether two addresses of this many bits share their first `prefix` bits.
fn shares<A: Bits>(width: u8, prefix: u8, one: A, two: A) -> bool {
    let rest = u32::from(width.saturating_sub(prefix));
    let cut = |bits: u128| bits.checked_shr(rest).unwrap_or(0);
    cut(one.bits()) == cut(two.bits())
}

trait Bits {
    fn bits(self) -> u128;
}

impl Bits for Ipv4Addr {
    fn bits(self) -> u128 {
        u128::from(u32::from(self))
    }
}

impl Bits for Ipv6Addr {
    fn bits(self) -> u128 {
        u128::from(self)
    }
}

/// A text that is neither an address nor a range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be an address or a range of them, as in 127.0.0.1, 10.0.0.0/8 or fd00::/8")]
pub struct AddressRangeError;

/// An address range: network and prefix length. A single address has the longest prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    network: IpAddr,
    prefix: u8,
}

impl Range {
    fn parse(text: &str) -> Result<Self, AddressRangeError> {
        let (network, prefix) = match text.split_once('/') {
            Some((network, prefix)) => (network, Some(prefix)),
            None => (text, None),
        };
        let network: IpAddr = network.parse().map_err(|_| AddressRangeError)?;
        let width = if network.is_ipv4() { 32 } else { 128 };
        let is_decimal = |digits: &&str| digits.bytes().all(|b| b.is_ascii_digit());
        let prefix = match prefix {
            Some(digits) => Some(digits)
                .filter(is_decimal)
                .and_then(|digits| digits.parse().ok())
                .ok_or(AddressRangeError)?,
            None => width,
        };
        if prefix <= width { Ok(Self { network, prefix }) } else { Err(AddressRangeError) }
    }

    fn holds(&self, address: IpAddr) -> bool {
        match (self.network, address) {
            (IpAddr::V4(network), IpAddr::V4(v4)) => shares(32, self.prefix, network, v4),
            (IpAddr::V6(network), IpAddr::V6(v6)) => shares(128, self.prefix, network, v6),
            _ => false,
        }
    }
}

/// Which addresses clients' connections may reach: public ones and the operator's exceptions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    allowed: Vec<Range>,
}

impl AddressPolicy {
    /// A policy with these exceptions. An invalid one fails with its index.
    pub fn new(allowed: &[String]) -> Result<Self, (usize, AddressRangeError)> {
        let ranges = allowed.iter().enumerate().map(|(at, text)| Range::parse(text).map_err(|bad| (at, bad)));
        Ok(Self { allowed: ranges.collect::<Result<_, _>>()? })
    }

    /// Whether the policy permits any non-public address.
    pub fn has_exceptions(&self) -> bool {
        !self.allowed.is_empty()
    }

    /// Whether a connection to this address is permitted, as far as the address itself tells.
    pub fn permits(&self, address: IpAddr) -> bool {
        self.permits_peer(address, false)
    }

    /// Whether a connection to this address is permitted. A machine's own public address counts as private:
    /// what listens there may be hidden from the internet by a firewall that local connections pass by.
    pub fn permits_peer(&self, address: IpAddr, is_own: bool) -> bool {
        (is_public(address) && !is_own) || self.allowed.iter().any(|range| range.holds(address))
    }
}

impl fmt::Display for AddressPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("public addresses")?;
        self.allowed.iter().try_for_each(|range| write!(f, ", {}/{}", range.network, range.prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn public(text: &str) -> bool {
        is_public(text.parse().expect(text))
    }

    #[test]
    fn p9_an_own_public_address_is_permitted_only_by_the_operator() {
        let address: IpAddr = "5.6.7.8".parse().expect("an address");
        let policy = |allowed: &[&str]| {
            AddressPolicy::new(&allowed.iter().map(ToString::to_string).collect::<Vec<_>>()).expect("ranges")
        };
        assert!(policy(&[]).permits_peer(address, false) && !policy(&[]).permits_peer(address, true));
        assert!(policy(&["5.6.7.8"]).permits_peer(address, true));
    }

    #[test]
    fn p9_special_ipv4_ranges_are_not_public() {
        for (first, last) in [
            ("0.0.0.0", "0.255.255.255"),
            ("10.0.0.0", "10.255.255.255"),
            ("100.64.0.0", "100.127.255.255"),
            ("127.0.0.0", "127.255.255.255"),
            ("168.63.129.16", "168.63.129.16"),
            ("169.254.0.0", "169.254.255.255"),
            ("172.16.0.0", "172.31.255.255"),
            ("192.0.0.0", "192.0.0.255"),
            ("192.0.2.0", "192.0.2.255"),
            ("192.88.99.0", "192.88.99.255"),
            ("192.168.0.0", "192.168.255.255"),
            ("198.18.0.0", "198.19.255.255"),
            ("198.51.100.0", "198.51.100.255"),
            ("203.0.113.0", "203.0.113.255"),
            ("224.0.0.0", "255.255.255.255"),
        ] {
            assert!(!public(first) && !public(last), "{first} to {last}");
        }
    }

    #[test]
    fn addresses_next_to_special_ranges_are_public() {
        for text in [
            "1.0.0.0",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "8.8.8.8",
            "2001:200::1",
            "2606:4700::1111",
            "2a00:1450:4001::200e",
            "2003::1",
        ] {
            assert!(public(text), "{text}");
        }
    }

    #[test]
    fn p9_special_ipv6_ranges_are_not_public() {
        for text in [
            "::",
            "::1",
            "::7f00:1",         // compatible
            "::8.8.8.8",        // compatible, of a public one
            "::ffff:127.0.0.1", // mapped
            "::ffff:8.8.8.8",   // mapped, of a public one
            "::ffff:0:8.8.8.8", // translated
            "64:ff9b::7f00:1",  // NAT64
            "64:ff9b::808:808", // NAT64, of a public one
            "64:ff9b:1::1",     // NAT64, local
            "100::1",           // discard
            "2001::1",          // Teredo
            "2001:0:7f00:1::",  // Teredo server
            "2001:2::1",        // benchmarks
            "2001:20::1",       // ORCHID
            "2001:db8::1",      // documentation
            "2002:7f00:1::",    // 6to4 of 127.0.0.1
            "2002:808:808::1",  // 6to4 of a public one
            "3fff::1",          // documentation
            "5f00::1",          // segment routing
            "fc00::1",          // unique local
            "fd12:3456::1",     // unique local
            "fe80::1",          // link-local
            "fec0::1",          // site-local
            "ff02::1",          // multicast
            "4000::1",          // not given out
        ] {
            assert!(!public(text), "{text}");
        }
    }

    fn policy(allowed: &[&str]) -> Result<AddressPolicy, (usize, AddressRangeError)> {
        AddressPolicy::new(&allowed.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn the_policy_permits_only_the_configured_private_ranges() {
        let policy = policy(&["127.0.0.1", "10.0.0.0/8", "fd00::/8"]).expect("ranges");
        let permits = |text: &str| policy.permits(text.parse().expect(text));
        assert!(permits("127.0.0.1") && permits("10.9.8.7") && permits("fd00::1") && permits("8.8.8.8"));
        for refused in ["127.0.0.2", "172.16.0.1", "::1", "fc00::1"] {
            assert!(!permits(refused), "{refused}");
        }
        assert!(!permits("::ffff:10.9.8.7"), "another way to write it is another address");
    }

    #[test]
    fn an_invalid_range_is_reported_with_its_index() {
        for bad in
            ["", "localhost", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "fd00::/129", "10.0.0/8", "/8"]
        {
            assert_eq!(policy(&["::1", bad]), Err((1, AddressRangeError)), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_address_is_in_the_full_range_and_in_its_own_range(bits: u32, six: u128) {
            let (v4, v6) = (IpAddr::from(Ipv4Addr::from(bits)), IpAddr::from(Ipv6Addr::from(six)));
            let all = policy(&["0.0.0.0/0", "::/0"]).expect("ranges");
            prop_assert!(all.permits(v4) && all.permits(v6));
            let own = policy(&[&v4.to_string(), &v6.to_string()]).expect("ranges");
            prop_assert!(own.permits(v4) && own.permits(v6));
        }

        #[test]
        fn an_ipv6_address_that_embeds_an_ipv4_address_is_not_public(low: u32) {
            let v4 = u128::from(low);
            for embedded in [v4, 0xffff << 32 | v4, 0x64_ff9b << 96 | v4, 0x2002 << 112 | v4 << 80, 0x2001 << 112 | v4 << 64] {
                prop_assert!(!is_public(IpAddr::from(Ipv6Addr::from(embedded))));
            }
        }
    }
}
