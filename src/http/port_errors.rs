//! Status and code of each error that a port of the store has of its own. The errors that all ports share
//! stand in [`super::error`].

use super::error::ApiError;
use super::quota;
use crate::ports::{
    AccountError, BatchError, ConversationError, ImportError, JobChangeError, ProjectError, ScheduleError,
    StoredFileError, SubmitError,
};
use hyper::StatusCode;
use std::fmt::Display;

impl ApiError {
    fn refused(status: StatusCode, code: &'static str, error: &impl Display) -> Self {
        Self::Refused { status, code, message: error.to_string() }
    }
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> Self {
        let (status, code) = match error {
            SubmitError::Store(error) => return error.into(),
            SubmitError::Quota(refusal) => return quota::refused(refusal),
            SubmitError::NoConversation => return Self::NotFound("conversation"),
            SubmitError::QueueFull { .. } => (StatusCode::TOO_MANY_REQUESTS, "queue_full"),
            SubmitError::ConversationsFull { .. } => (StatusCode::TOO_MANY_REQUESTS, "conversations_full"),
            SubmitError::ApprovalAnswered { .. } => (StatusCode::BAD_REQUEST, "approval_already_answered"),
            SubmitError::NoPredecessor { .. } => (StatusCode::NOT_FOUND, "not_found"),
            SubmitError::DependentsFull { .. } => (StatusCode::TOO_MANY_REQUESTS, "dependents_full"),
            SubmitError::KeyReused => (StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused"),
            SubmitError::KeySpent => (StatusCode::GONE, "idempotency_key_spent"),
        };
        Self::refused(status, code, &error)
    }
}

impl From<BatchError> for ApiError {
    fn from(error: BatchError) -> Self {
        let (status, code) = match error {
            BatchError::Store(error) => return error.into(),
            BatchError::Quota(refusal) => return quota::refused(refusal),
            BatchError::Abandoned => (StatusCode::SERVICE_UNAVAILABLE, "batch_abandoned"),
            BatchError::QueueFull { .. } => (StatusCode::TOO_MANY_REQUESTS, "queue_full"),
            BatchError::KeyReused => (StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused"),
            BatchError::NotEnded => (StatusCode::CONFLICT, "batch_not_ended"),
            BatchError::KeySpent => (StatusCode::GONE, "idempotency_key_spent"),
        };
        Self::refused(status, code, &error)
    }
}

impl From<JobChangeError> for ApiError {
    fn from(error: JobChangeError) -> Self {
        let (status, code) = match error {
            JobChangeError::Store(error) => return error.into(),
            JobChangeError::Quota(refusal) => return quota::refused(refusal),
            JobChangeError::WrongState { .. } => (StatusCode::CONFLICT, "wrong_state"),
            JobChangeError::UnnamedCalls { .. } => (StatusCode::CONFLICT, "calls_not_named"),
            JobChangeError::NotPending { .. } => (StatusCode::BAD_REQUEST, "not_pending"),
            JobChangeError::Imported => (StatusCode::CONFLICT, "job_imported"),
            JobChangeError::LogCut => (StatusCode::CONFLICT, "log_cut"),
            JobChangeError::QueueFull { .. } => (StatusCode::TOO_MANY_REQUESTS, "queue_full"),
        };
        Self::refused(status, code, &error)
    }
}

impl From<ImportError> for ApiError {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Store(error) => error.into(),
            ImportError::Quota(refusal) => quota::refused(refusal),
            ImportError::Taken { .. } => Self::refused(StatusCode::CONFLICT, "job_exists", &error),
        }
    }
}

impl From<ConversationError> for ApiError {
    fn from(error: ConversationError) -> Self {
        let (status, code) = match error {
            ConversationError::Store(error) => return error.into(),
            ConversationError::Quota(refusal) => return quota::refused(refusal),
            ConversationError::NoConversation => return Self::NotFound("conversation"),
            ConversationError::NameTaken => (StatusCode::CONFLICT, "name_taken"),
            ConversationError::WrongState { .. } => (StatusCode::CONFLICT, "wrong_state"),
            ConversationError::NoQuestion => (StatusCode::CONFLICT, "no_question"),
            ConversationError::TooLate { .. } => (StatusCode::CONFLICT, "too_late"),
            ConversationError::KeyReused => (StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused"),
            ConversationError::ApprovalAnswered { .. } => {
                (StatusCode::BAD_REQUEST, "approval_already_answered")
            }
            ConversationError::KeySpent => (StatusCode::GONE, "idempotency_key_spent"),
            ConversationError::QueueFull { .. } => (StatusCode::TOO_MANY_REQUESTS, "queue_full"),
            ConversationError::ConversationsFull { .. } => {
                (StatusCode::TOO_MANY_REQUESTS, "conversations_full")
            }
        };
        Self::refused(status, code, &error)
    }
}

impl From<ScheduleError> for ApiError {
    fn from(error: ScheduleError) -> Self {
        match error {
            ScheduleError::Store(error) => error.into(),
            ScheduleError::SchedulesFull { .. } => {
                Self::refused(StatusCode::TOO_MANY_REQUESTS, "schedules_full", &error)
            }
            // Only models meet this limit.
            ScheduleError::ModelSchedulesFull { .. } => Self::Internal,
            ScheduleError::TooOften { .. } => Self::malformed(error.to_string()),
            ScheduleError::ModelScheduleHeld => Self::refused(StatusCode::CONFLICT, "schedule_held", &error),
            ScheduleError::Submit(error) => error.into(),
        }
    }
}

impl From<ProjectError> for ApiError {
    fn from(error: ProjectError) -> Self {
        match error {
            ProjectError::Store(error) => error.into(),
            ProjectError::NameTaken => Self::value("name", "a project of this name exists already"),
            ProjectError::ProjectsFull { .. } => {
                Self::refused(StatusCode::TOO_MANY_REQUESTS, "projects_full", &error)
            }
        }
    }
}

impl From<StoredFileError> for ApiError {
    fn from(error: StoredFileError) -> Self {
        match error {
            StoredFileError::Store(error) => error.into(),
            StoredFileError::Quota(refusal) => quota::refused(refusal),
            StoredFileError::FilesFull { .. } => {
                Self::refused(StatusCode::TOO_MANY_REQUESTS, "files_full", &error)
            }
            StoredFileError::BytesFull { .. } => {
                Self::refused(StatusCode::PAYLOAD_TOO_LARGE, "quota_exceeded", &error)
            }
        }
    }
}

impl From<AccountError> for ApiError {
    fn from(error: AccountError) -> Self {
        let (status, code) = match error {
            AccountError::Store(error) => return error.into(),
            AccountError::NameTaken => (StatusCode::CONFLICT, "name_taken"),
            AccountError::EmailTaken => (StatusCode::CONFLICT, "email_taken"),
            AccountError::NotInvited => (StatusCode::FORBIDDEN, "not_invited"),
            AccountError::SetupInviteNeeded => (StatusCode::FORBIDDEN, "invite_needed"),
            AccountError::AccountExists => (StatusCode::CONFLICT, "account_exists"),
            AccountError::RegistrationClosed => (StatusCode::FORBIDDEN, "registration_closed"),
            AccountError::LastAdmin => (StatusCode::CONFLICT, "last_admin"),
            AccountError::AccountsFull { .. } => (StatusCode::TOO_MANY_REQUESTS, "accounts_full"),
            AccountError::TokensFull { .. } => (StatusCode::TOO_MANY_REQUESTS, "tokens_full"),
        };
        Self::refused(status, code, &error)
    }
}
