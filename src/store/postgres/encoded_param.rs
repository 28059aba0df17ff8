//! Parameters of a statement that outlive the values they were made of, for statements whose replies are
//! awaited later.

use crate::ports::StoreError;
use bytes::BytesMut;
use std::error::Error;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

/// A parameter as the server reads it; `None` is NULL.
#[derive(Debug)]
pub(crate) struct EncodedParam(Option<BytesMut>);

impl EncodedParam {
    /// Encodes the parameters of a statement that takes these types.
    pub(crate) fn encode(types: &[Type], params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Self>, StoreError> {
        if types.len() != params.len() {
            let (given, taken) = (params.len(), types.len());
            return Err(StoreError::Corrupt(format!(
                "{given} parameters for a statement that takes {taken}"
            )));
        }
        let encode = |(param, of): (&&(dyn ToSql + Sync), &Type)| {
            let mut bytes = BytesMut::new();
            match param.to_sql_checked(of, &mut bytes) {
                Ok(IsNull::Yes) => Ok(Self(None)),
                Ok(IsNull::No) => Ok(Self(Some(bytes))),
                Err(error) => Err(StoreError::Corrupt(format!("a parameter of the type {of}: {error}"))),
            }
        };
        params.iter().zip(types).map(encode).collect()
    }
}

impl ToSql for EncodedParam {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match &self.0 {
            Some(bytes) => {
                out.extend_from_slice(bytes);
                Ok(IsNull::No)
            }
            None => Ok(IsNull::Yes),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}
