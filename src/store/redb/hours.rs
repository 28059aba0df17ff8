//! The accounts by the hour, for whoever asks in a time zone of their own. Owns what becomes of days that were booked before
//! there were hours, and the sum over all users; refuses to book anything.

use super::accounts::{Lines, lines};
use super::keys::{UsageBytes, UsageKey};
use super::schema::{USAGE, USAGE_HOURS};
use crate::domain::id::UserId;
use crate::domain::usage::Usage;
use crate::ports::{HourUsage, StoreError};
use redb::ReadTransaction;
use std::collections::BTreeMap;

/// Hours of a day.
const DAY_HOURS: u32 = 24;
/// What has a day and no hour counts in the middle of the day: so it is on the same date in most zones.
const NOON: u32 = 12;

/// By hour and model.
type Sums = BTreeMap<(u32, String), Usage>;

/// What was spent from one hour to another, both included; by one user, or by all together.
pub(super) fn hours(
    reading: &ReadTransaction,
    user: Option<UserId>,
    from: u32,
    to: u32,
) -> Result<Vec<HourUsage>, StoreError> {
    let (days, hours) = (USAGE.read(reading)?, USAGE_HOURS.read(reading)?);
    let mut sums = Sums::new();
    let mut next = match user {
        Some(user) => Some(user),
        None => user_from(&days, 0)?,
    };
    while let Some(whose) = next {
        for (at, usage) in of_user(&days, &hours, whose, (from, to))? {
            *sums.entry(at).or_default() += usage;
        }
        next = match (user, whose.0.checked_add(1)) {
            (None, Some(following)) => user_from(&days, following)?,
            _ => None,
        };
    }
    let told = sums.into_iter().filter(|((hour, _), _)| (from..=to).contains(hour));
    Ok(told.map(|((hour, model), usage)| HourUsage { hour, model, usage }).collect())
}

/// The first user from this number on who has spent anything.
fn user_from(days: &Lines, number: u32) -> Result<Option<UserId>, StoreError> {
    let first = UsageKey { user: UserId(number), at: 0, model: [0; 32] }.encode();
    let entry = days.range::<&UsageBytes>(&first..)?.next().transpose()?;
    Ok(entry.map(|(key, _)| UsageKey::decode(key.value()).user))
}

/// Whole days that have the hours in them: what of a day stands in no hour is told at noon.
fn of_user(days: &Lines, hours: &Lines, user: UserId, (from, to): (u32, u32)) -> Result<Sums, StoreError> {
    let (first, last) = (from / DAY_HOURS, to / DAY_HOURS);
    let end = last.saturating_mul(DAY_HOURS).saturating_add(DAY_HOURS - 1);
    let (mut sums, mut by_day) = (Sums::new(), Sums::new());
    for (hour, booked) in lines(hours, user, first.saturating_mul(DAY_HOURS), end)? {
        *by_day.entry((hour / DAY_HOURS, booked.model.clone())).or_default() += booked.usage;
        *sums.entry((hour, booked.model)).or_default() += booked.usage;
    }
    for (day, booked) in lines(days, user, first, last)? {
        let at = (day, booked.model);
        let rest = booked.usage.since(by_day.get(&at).copied().unwrap_or_default());
        if rest != Usage::default() {
            let noon = day.saturating_mul(DAY_HOURS).saturating_add(NOON);
            *sums.entry((noon, at.1)).or_default() += rest;
        }
    }
    Ok(sums)
}
