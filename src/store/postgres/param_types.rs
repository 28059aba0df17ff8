//! The types of parameters, for statements that nobody prepares: a pooler in transaction mode may run each
//! transaction on another connection, where statements that were prepared before do not exist.

use bytes::BytesMut;
use tokio_postgres::types::{ToSql, Type};

/// All types of parameters of this store.
const TYPES: [Type; 12] = [
    Type::INT8,
    Type::TEXT,
    Type::BOOL,
    Type::INT4,
    Type::INT2,
    Type::BYTEA,
    Type::TEXT_ARRAY,
    Type::INT8_ARRAY,
    Type::INT4_ARRAY,
    Type::BOOL_ARRAY,
    Type::BYTEA_ARRAY,
    Type::INT2_ARRAY,
];

/// The parameters with the type of each: the one that its value can be written as.
pub(crate) fn with_types<'p>(params: &[&'p (dyn ToSql + Sync)]) -> Vec<(&'p (dyn ToSql + Sync), Type)> {
    let mut scratch = BytesMut::new();
    let mut type_of = |param: &(dyn ToSql + Sync)| {
        scratch.clear();
        let fits = |of: &&Type| param.to_sql_checked(of, &mut scratch).is_ok();
        // The database refuses the statement if it cannot tell the type either.
        TYPES.iter().find(fits).cloned().unwrap_or(Type::UNKNOWN)
    };
    params.iter().map(|param| (*param, type_of(*param))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_has_one_type() {
        let text = String::from("a");
        let (bytes, none): (&[u8], Option<i64>) = (&[1], None);
        let (texts, numbers, flags) = (vec![Some("a")], [1_i32], vec![true]);
        let params: &[&(dyn ToSql + Sync)] = &[
            &text,
            &&text,
            &1_i64,
            &none,
            &1_i32,
            &1_i16,
            &true,
            &bytes,
            &texts,
            &numbers.as_slice(),
            &flags,
        ];
        let types: Vec<Type> = with_types(params).into_iter().map(|(_, of)| of).collect();
        let numbers = [Type::INT8, Type::INT8, Type::INT4, Type::INT2];
        let lists = [Type::TEXT_ARRAY, Type::INT4_ARRAY, Type::BOOL_ARRAY];
        let expected = [&[Type::TEXT, Type::TEXT], &numbers[..], &[Type::BOOL, Type::BYTEA], &lists].concat();
        assert_eq!(types, expected);
    }
}
