//! Keys of accounts, tokens, invites and usage.

use crate::domain::id::{TokenId, UserId};
use crate::ports::SecretDigest;
use crate::store::redb::codec::keys::reader::{KeyPart, KeyReader, id_ends, join, key};
use sha2::{Digest as _, Sha256};

/// Bytes of an account's key.
pub(crate) type AccountBytes = [u8; 16];
/// Bytes of a [`AccountLookupKey`].
pub(crate) type AccountLookupBytes = [u8; 36];
/// Bytes of a [`TokenKey`].
pub(crate) type TokenBytes = [u8; 20];

/// Key of an account; the number is at the end.
pub(crate) fn account_key(user: UserId) -> AccountBytes {
    join(&[&[0; 12], &user.0.to_be_bytes()])
}

/// The number in an account's key.
pub(crate) fn account_of(bytes: &AccountBytes) -> UserId {
    let mut reader = KeyReader(bytes);
    let _padding: [u8; 12] = reader.take();
    reader.part()
}

/// Kind of a lookup by text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AccountLookup {
    /// An account, by its name.
    Name = 0,
    /// An account, by its address.
    Email = 1,
    /// A token, by its key.
    Token = 2,
    /// An invite, by its code.
    Invite = 3,
}

/// A digest and the kind of text behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AccountLookupKey {
    pub(crate) by: AccountLookup,
    pub(crate) digest: SecretDigest,
}

impl AccountLookupKey {
    /// Lookup by this exact text.
    pub(crate) fn text(by: AccountLookup, text: &str) -> Self {
        Self { by, digest: Sha256::digest(text).into() }
    }

    /// The first and the last key of a kind of lookup.
    pub(crate) fn ends(by: AccountLookup) -> (Self, Self) {
        (Self { by, digest: [0; 32] }, Self { by, digest: [u8::MAX; 32] })
    }

    pub(crate) fn encode(self) -> AccountLookupBytes {
        join(&[&(self.by as u32).to_be_bytes(), &self.digest])
    }
}

/// A token in its user's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TokenKey {
    pub(crate) user: UserId,
    pub(crate) id: TokenId,
}

impl TokenKey {
    /// Before and behind all of a user's.
    pub(crate) fn ends(user: UserId) -> (Self, Self) {
        id_ends(|bits| Self { user, id: TokenId::from_bits(bits) })
    }

    pub(crate) fn encode(self) -> TokenBytes {
        join(&[&self.user.0.to_be_bytes(), &self.id.to_bytes()])
    }
}

key! {
    /// The usage of a user on a model in a day, or in an hour.
    UsageKey, UsageBytes = 40 {
        user: UserId,
        /// Days since 1970 in UTC; in the table of hours, hours.
        at: u32,
        /// A digest of the model's name, which may be of any length; the value holds the name.
        model: [u8; 32],
    }
}

key! {
    /// The unfinished work of a user: a value.
    UnfinishedWork, UnfinishedWorkBytes = 16 {
        /// Jobs that have not ended.
        jobs: u64,
        /// Lines of open batches that have no job yet.
        lines: u64,
    }
}

impl UnfinishedWork {
    /// Jobs and lines.
    pub(crate) fn all(self) -> u64 {
        self.jobs.saturating_add(self.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn account_lookup_keys_of_different_kinds_do_not_collide() {
        let (name, email) = (
            AccountLookupKey::text(AccountLookup::Name, "a@b"),
            AccountLookupKey::text(AccountLookup::Email, "a@b"),
        );
        assert_ne!(name.encode(), email.encode());
        let (first, last) = AccountLookupKey::ends(AccountLookup::Name);
        assert!(first.encode() <= name.encode() && name.encode() <= last.encode());
        assert!(last.encode() < email.encode());
    }

    proptest! {
        #[test]
        fn account_keys_round_trip_and_sort(a: u32, b: u32) {
            prop_assert_eq!(account_of(&account_key(UserId(a))), UserId(a));
            prop_assert_eq!(account_key(UserId(a)).cmp(&account_key(UserId(b))), a.cmp(&b));
        }

        #[test]
        fn p7_token_keys_sort_by_user_and_id(a: (u32, u128), b: (u32, u128), same: bool) {
            let key = |(user, bits)| TokenKey { user: UserId(user), id: TokenId::from_bits(bits) };
            let (a, b) = (key(a), key(if same { (a.0, b.1) } else { b }));
            prop_assert_eq!(a.encode().cmp(&b.encode()), a.cmp(&b));
            let (first, last) = TokenKey::ends(a.user);
            prop_assert_eq!((first..=last).contains(&b), a.user == b.user);
        }
    }
}
