//! The columns of tokens and cost that the tables of usage share. Sums end at the largest `bigint`, so that
//! an absurd report of a provider fails no statement.

use crate::domain::usage::Usage;
use crate::ports::StoreError;
use crate::store::postgres::session::{Columns, sql_number};
use tokio_postgres::Row;

/// The columns, in the order of [`numbers`] and [`read`].
pub(crate) const NAMES: [&str; 6] = [
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "cost_micros",
];

/// The columns as a list.
pub(crate) const LIST: &str =
    "prompt_tokens, completion_tokens, total_tokens, cached_tokens, reasoning_tokens, cost_micros";

/// The values of the columns.
pub(crate) fn numbers(usage: Usage) -> [i64; 6] {
    [
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.total_tokens,
        usage.cached_tokens,
        usage.reasoning_tokens,
        usage.cost_micros,
    ]
    .map(sql_number)
}

/// Reads the columns, which begin at this one.
pub(crate) fn read(row: &Row, first: usize) -> Result<Usage, StoreError> {
    let at = |offset: usize| row.number(first.saturating_add(offset));
    Ok(Usage {
        prompt_tokens: at(0)?,
        completion_tokens: at(1)?,
        total_tokens: at(2)?,
        cached_tokens: at(3)?,
        reasoning_tokens: at(4)?,
        cost_micros: at(5)?,
    })
}

/// The sum of a column over a group of rows, or over none: `least` ignores NULL.
pub(crate) fn sum(column: &str) -> String {
    format!("least(coalesce(sum({column}), 0), 9223372036854775807)::bigint")
}

/// The sums of all columns, as a list.
pub(crate) fn sums() -> String {
    NAMES.map(sum).join(", ")
}

/// The assignments that add a new row to the stored row `s`, for `ON CONFLICT DO UPDATE SET`.
pub(crate) fn additions() -> String {
    NAMES.map(addition).join(", ")
}

/// The same for one column.
pub(crate) fn addition(column: &str) -> String {
    format!("{column} = least(s.{column}, 9223372036854775807 - excluded.{column}) + excluded.{column}")
}

/// Values of the columns for many rows, to be bound as arrays.
#[derive(Debug, Default)]
pub(crate) struct UsageArrays([Vec<i64>; 6]);

impl UsageArrays {
    /// Adds a row.
    pub(crate) fn push(&mut self, usage: Usage) {
        for (column, number) in self.0.iter_mut().zip(numbers(usage)) {
            column.push(number);
        }
    }

    /// The arrays in the order of [`NAMES`].
    pub(crate) fn arrays(&self) -> &[Vec<i64>; 6] {
        &self.0
    }
}
