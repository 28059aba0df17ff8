//! Usage by hour, for callers that count days in another time zone.

use crate::domain::id::UserId;
use crate::domain::usage::Usage;
use crate::ports::{HourUsage, StoreError};
use crate::store::redb::accounts::usage::{UsageTable, lines};
use crate::store::redb::codec::keys::accounts::{UsageBytes, UsageKey};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::tables::USAGE_HOURS;
use std::collections::BTreeMap;

/// The usage from one hour to another, both included, of one user or of all together.
pub(crate) fn hourly_usage(
    reading: &ReadTransaction,
    user: Option<UserId>,
    from: u32,
    to: u32,
) -> Result<Vec<HourUsage>, StoreError> {
    let table = USAGE_HOURS.read(reading)?;
    let mut sums: BTreeMap<(u32, String), Usage> = BTreeMap::new();
    let mut next = match user {
        Some(user) => Some(user),
        None => user_from(&table, 0)?,
    };
    while let Some(owner) = next {
        for (hour, booked) in lines(&table, owner, from, to)? {
            *sums.entry((hour, booked.model)).or_default() += booked.usage;
        }
        next = match (user, owner.0.checked_add(1)) {
            (None, Some(following)) => user_from(&table, following)?,
            _ => None,
        };
    }
    Ok(sums.into_iter().map(|((hour, model), usage)| HourUsage { hour, model, usage }).collect())
}

/// The first user from this number on who has any usage.
pub(crate) fn user_from(table: &UsageTable, number: u32) -> Result<Option<UserId>, StoreError> {
    let first = UsageKey { user: UserId(number), at: 0, model: [0; 32] }.encode();
    let entry = table.range::<&UsageBytes>(&first..)?.next().transpose()?;
    Ok(entry.map(|(key, _)| UsageKey::decode(key.value()).user))
}
