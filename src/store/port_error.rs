//! Finds the error of the store itself in an error of one of its ports.

use crate::ports::{
    AccountError, BatchError, ConversationError, ImportError, JobChangeError, LeaseError, ProjectError,
    ScheduleError, SpawnError, StoreError, StoredFileError, SubmitError,
};

/// An error of a port of the store.
pub(crate) trait PortError: From<StoreError> + Send + 'static {
    /// The error of the store itself, if it is one.
    fn store_error(&self) -> Option<&StoreError>;
}

impl PortError for StoreError {
    fn store_error(&self) -> Option<&StoreError> {
        Some(self)
    }
}

impl PortError for SpawnError {
    fn store_error(&self) -> Option<&StoreError> {
        match self {
            Self::Submit(error) => error.store_error(),
            Self::SpawnedFull { .. } => None,
        }
    }
}

macro_rules! port_errors {
    ($($error:ty),*) => {$(
        impl PortError for $error {
            fn store_error(&self) -> Option<&StoreError> {
                if let Self::Store(error) = self { Some(error) } else { None }
            }
        }
    )*};
}
port_errors!(
    SubmitError,
    ImportError,
    LeaseError,
    JobChangeError,
    ConversationError,
    ScheduleError,
    AccountError,
    ProjectError,
    BatchError,
    StoredFileError
);
