//! Invites, under the digests of their codes. The id of an invite is the first half of its digest: it names
//! the invite in lists, and nobody can compute the code from it.

use crate::domain::id::{InviteId, UserId};
use crate::ports::{
    AccountError, InviteKind, InvitePage, NewInvite, PendingInvite, RequiredInvite, SecretDigest, StoreError,
    ValidSetupInvite,
};
use crate::store::redb::accounts::write::has_no_passwords;
use crate::store::redb::codec::keys::accounts::{AccountLookup, AccountLookupBytes, AccountLookupKey};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::ACCOUNT_LOOKUP;
use crate::store::redb::codec::values;
use crate::store::redb::writer::transaction::Transaction;
use serde::{Deserialize, Serialize};
use std::ops::Bound;

/// What is stored of an invite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum InviteRow {
    /// Its expiry, as earlier builds stored it.
    Expiry(u64),
    /// All of it.
    Whole { created_at_ms: u64, expires_at_ms: u64, created_by: Option<UserId> },
}

impl InviteRow {
    /// Unix milliseconds; the invite is invalid from then on.
    pub(crate) fn expires_at_ms(self) -> u64 {
        match self {
            Self::Expiry(expires_at_ms) | Self::Whole { expires_at_ms, .. } => expires_at_ms,
        }
    }

    /// The server itself makes set-up invites only. An invite of an earlier build may be anybody's.
    pub(crate) fn kind(self) -> InviteKind {
        match self {
            Self::Whole { created_by: None, .. } => InviteKind::Setup,
            Self::Whole { .. } | Self::Expiry(_) => InviteKind::Ordinary,
        }
    }

    fn pending(self, id: InviteId) -> PendingInvite {
        let (created_at_ms, created_by) = match self {
            Self::Expiry(_) => (None, None),
            Self::Whole { created_at_ms, created_by, .. } => (Some(created_at_ms), created_by),
        };
        PendingInvite { id, created_at_ms, expires_at_ms: self.expires_at_ms(), created_by }
    }
}

/// Bytes of an id.
const ID_BYTES: usize = 16;

/// A key of an invite with this id, whose digest ends with bytes of this value.
fn key(id: InviteId, rest: u8) -> AccountLookupBytes {
    let mut digest: SecretDigest = [rest; 32];
    for (byte, of_id) in digest.iter_mut().zip(id.to_bytes()) {
        *byte = of_id;
    }
    invite_key(digest)
}

fn invite_key(digest: SecretDigest) -> AccountLookupBytes {
    AccountLookupKey { by: AccountLookup::Invite, digest }.encode()
}

/// The first and the last key of an invite with this id.
fn ends(id: InviteId) -> (AccountLookupBytes, AccountLookupBytes) {
    (key(id, 0), key(id, u8::MAX))
}

/// The id in a key.
fn id_of(key: &AccountLookupBytes) -> InviteId {
    let digest = key.last_chunk::<32>().and_then(|digest| digest.first_chunk::<ID_BYTES>());
    InviteId::from_bytes(digest.copied().unwrap_or_default())
}

impl Transaction<'_> {
    /// Stores an invite and removes expired ones.
    pub(crate) fn store_invite(&mut self, invite: &NewInvite) -> Result<(), StoreError> {
        self.refuse_low_disk()?;
        let now_ms = self.now_ms;
        self.remove_invites(|row| row.expires_at_ms() <= now_ms)?;
        let NewInvite { created_at_ms, expires_at_ms, created_by, .. } = *invite;
        let row = InviteRow::Whole { created_at_ms, expires_at_ms, created_by };
        self.tables.account_lookup.put_row(&invite_key(invite.digest), &row)?;
        self.mark_dirty();
        Ok(())
    }

    /// Stores the set-up invite in place of the others, and returns the one in force.
    pub(crate) fn store_setup_invite(
        &mut self,
        invite: &NewInvite,
        valid: ValidSetupInvite,
    ) -> Result<PendingInvite, AccountError> {
        if !has_no_passwords(&self.tables.users)? {
            return Err(AccountError::AccountExists);
        }
        if valid == ValidSetupInvite::Kept
            && let Some(kept) = self.valid_setup_invite()?
        {
            return Ok(kept);
        }
        self.remove_setup_invites()?;
        self.store_invite(invite)?;
        Ok(invite.pending())
    }

    fn valid_setup_invite(&self) -> Result<Option<PendingInvite>, StoreError> {
        let (first, last) = AccountLookupKey::ends(AccountLookup::Invite);
        let (first, last) = (first.encode(), last.encode());
        for entry in self.tables.account_lookup.range::<&AccountLookupBytes>(&first..=&last)? {
            let (key, bytes) = entry?;
            let row = values::decode::<InviteRow>(bytes.value()).ok();
            let row = row.filter(|row| row.kind() == InviteKind::Setup && row.expires_at_ms() > self.now_ms);
            if let Some(row) = row {
                return Ok(Some(row.pending(id_of(key.value()))));
            }
        }
        Ok(None)
    }

    /// Removes the set-up invite: the first account exists, or another invite takes its place.
    pub(crate) fn remove_setup_invites(&mut self) -> Result<(), StoreError> {
        self.remove_invites(|row| row.kind() == InviteKind::Setup)
    }

    /// Removes the readable invites for which `is_removed` holds.
    fn remove_invites(&mut self, is_removed: impl Fn(InviteRow) -> bool) -> Result<(), StoreError> {
        let (first, last) = AccountLookupKey::ends(AccountLookup::Invite);
        self.tables
            .account_lookup
            .retain_in::<&AccountLookupBytes>(&first.encode()..=&last.encode(), |_, bytes| {
                !values::decode(bytes).is_ok_and(&is_removed)
            })?;
        Ok(())
    }

    /// Fails if the invite is not valid.
    pub(crate) fn check_invite(&self, required: RequiredInvite) -> Result<(), AccountError> {
        match self.tables.account_lookup.row::<InviteRow>(&invite_key(required.digest))? {
            Some(row) if row.kind() == required.kind && row.expires_at_ms() > self.now_ms => Ok(()),
            _ => Err(required.kind.refusal()),
        }
    }

    /// Removes an invite that a registration uses up.
    pub(crate) fn use_invite(&mut self, digest: SecretDigest) -> Result<(), StoreError> {
        self.tables.account_lookup.remove(&invite_key(digest))?;
        Ok(())
    }

    /// Removes an invite, also one that cannot be read. Returns whether it could still be used.
    pub(crate) fn revoke_invite(&mut self, id: InviteId) -> Result<bool, StoreError> {
        let (first, last) = ends(id);
        let now_ms = self.now_ms;
        let mut was_valid = false;
        let mut is_found = false;
        self.tables.account_lookup.retain_in::<&AccountLookupBytes>(&first..=&last, |_, bytes| {
            is_found = true;
            let row = values::decode::<InviteRow>(bytes);
            was_valid |= row.is_ok_and(|invite| invite.expires_at_ms() > now_ms);
            false
        })?;
        if is_found {
            self.mark_dirty();
        }
        Ok(was_valid)
    }
}

/// A page of invites that expire after `now_ms`. Expired ones may be stored still, until the next new invite.
pub(crate) fn page(
    reading: &ReadTransaction,
    after: Option<InviteId>,
    limit: usize,
    now_ms: u64,
) -> Result<InvitePage, StoreError> {
    let (first, last) = AccountLookupKey::ends(AccountLookup::Invite);
    let first = after.map_or(first.encode(), |after| key(after, u8::MAX));
    let low = if after.is_some() { Bound::Excluded(&first) } else { Bound::Included(&first) };
    let last = last.encode();
    let mut page = InvitePage { invites: Vec::new(), has_more: false };
    for entry in ACCOUNT_LOOKUP.read(reading)?.range::<&AccountLookupBytes>((low, Bound::Included(&last)))? {
        let (key, bytes) = entry?;
        let id = id_of(key.value());
        let row: InviteRow = values::listed(id, values::decode(bytes.value()).map(Some))?;
        if row.expires_at_ms() <= now_ms {
            continue;
        }
        if page.invites.len() >= limit {
            page.has_more = true;
            break;
        }
        page.invites.push(row.pending(id));
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invite_id_is_the_first_half_of_the_digest() {
        let id = InviteId::from_bytes([7; ID_BYTES]);
        let (first, last) = ends(id);
        assert_eq!((id_of(&first), id_of(&last)), (id, id));
        let mut digest = [9; 32];
        digest[..ID_BYTES].fill(7);
        let stored = AccountLookupKey { by: AccountLookup::Invite, digest }.encode();
        assert!((first..=last).contains(&stored) && id_of(&stored) == id);
    }

    #[test]
    fn an_invite_of_an_earlier_version_is_read() {
        let old: InviteRow = values::decode(&values::encode(&5_u64).unwrap()).unwrap();
        assert_eq!(old, InviteRow::Expiry(5));
        let new = InviteRow::Whole { created_at_ms: 1, expires_at_ms: 2, created_by: None };
        assert_eq!(values::decode::<InviteRow>(&values::encode(&new).unwrap()), Ok(new));
    }
}
