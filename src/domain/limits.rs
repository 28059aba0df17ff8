//! Every limit of P8 with its unit in its name, and its default.

use serde::{Deserialize, Serialize};

/// Limits; `limits:` in the configuration. A test compares `config/default.yml` with these defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Maximum request body, bytes; else 413.
    pub body_bytes: usize,
    /// Maximum bytes of all request bodies in flight; else 503.
    pub bodies_bytes: usize,
    /// Maximum request line and headers together, bytes; else 431.
    pub header_bytes: usize,
    /// Maximum header lines of a request.
    pub headers: usize,
    /// Time for a request's head to arrive, seconds.
    pub header_timeout_s: u64,
    /// Time for a request's body to arrive, seconds; else 408.
    pub body_timeout_s: u64,
    /// Write timeout: a client that reads nothing for so long is disconnected, seconds.
    pub write_stall_s: u64,
    /// Maximum open connections; more wait in the kernel's backlog.
    pub connections: usize,
    /// Maximum `?wait=`, seconds.
    pub wait_s: u64,
    /// Maximum bytes of a job's messages together.
    pub input_bytes: usize,
    /// Maximum messages in a job's `input`.
    pub input_messages: usize,
    /// Maximum files attached to one message.
    pub input_attachments: usize,
    /// Maximum metadata pairs of a job.
    pub metadata_pairs: usize,
    /// Maximum metadata key, characters.
    pub metadata_key_chars: usize,
    /// Maximum metadata value, characters.
    pub metadata_value_chars: usize,
    /// Maximum bytes of a batch's lines together; else 413.
    pub batch_bytes: u64,
    /// Maximum lines of a batch.
    pub batch_lines: usize,
    /// Maximum jobs of one batch in the queue at once.
    pub batch_concurrency: u32,
    /// Maximum unfinished jobs in the store; else 429.
    pub queue_jobs: u64,
    /// Queue ageing: waiting for so long counts as one priority level, seconds; 0 turns it off.
    pub queue_ageing_s: u64,
    /// How long an `Idempotency-Key` is kept, seconds.
    pub idempotency_s: u64,
    /// Maximum `max_attempts` of a job.
    pub job_attempts: u32,
    /// Delay before a failed job's second attempt, seconds; doubles with each attempt.
    pub job_backoff_s: u64,
    /// Maximum delay between attempts, seconds.
    pub job_backoff_max_s: u64,
    /// Maximum schedules of one user; else 429.
    pub schedules: u64,
    /// Maximum unfinished background jobs that one user's models have started; more is an error for the
    /// model.
    pub spawned_jobs: u64,
    /// Maximum characters of one message to a channel.
    pub message_chars: usize,
    /// Free disk space to keep, bytes; below it new work gets a 507. 0 turns it off.
    pub disk_free_bytes: u64,
    /// Free disk space to keep, percent of the disk, at most 4 GiB. The larger of both limits holds; 0 turns
    /// it off.
    pub disk_free_percent: u64,
    /// Default `timeout_s` of a job.
    pub job_timeout_s: u64,
    /// Maximum `timeout_s` of a job.
    pub job_timeout_max_s: u64,
    /// Maximum answer of a model with its thinking, bytes; more ends the job.
    pub output_bytes: usize,
    /// Maximum tool calls in one answer; more ends the job with `output_too_large`.
    pub tool_calls: usize,
    /// Maximum arguments of one tool call, bytes; more ends the job with `output_too_large`.
    pub tool_arguments_bytes: usize,
    /// Maximum tool result that the model sees, characters.
    pub tool_result_chars: usize,
    /// Maximum full tool result that is stored for the model to page through, bytes.
    pub tool_result_bytes: usize,
    /// Timeout of one tool call, seconds; the time that a command asks for is added.
    pub tool_timeout_s: u64,
    /// Consecutive failed model calls that make the job fail.
    pub model_failures: u32,
    /// How long calls wait for an approval before they count as denied, seconds.
    pub approval_timeout_s: u64,
    /// Failures of the same tool call after which a run is closed with what it has.
    pub repeated_failures: u32,
    /// Maximum time between two pieces of a model's answer, seconds. Five times as long may pass while only
    /// comments and pings arrive.
    pub model_idle_timeout_s: u64,
    /// Connect timeout of model providers, seconds.
    pub model_connect_timeout_s: u64,
    /// Maximum wait for a provider's rate limiter, seconds; a job that has to wait longer returns to the
    /// queue.
    pub model_wait_s: u64,
    /// Consecutive failures that open a provider's circuit breaker; 0 turns it off.
    pub model_circuit_failures: u32,
    /// Maximum time between two tries while the breaker is open, seconds.
    pub model_circuit_open_s: u64,
    /// Maximum messages that a conversation passes to its next job.
    pub history_messages: usize,
    /// Maximum bytes that a conversation passes to its next job.
    pub history_bytes: usize,
    /// Consecutive crashes that make a job poison.
    pub crashes: u32,
    /// A running job whose log has not grown for so long is logged as stalled, seconds; 0 turns it off.
    pub stuck_job_s: u64,
    /// Time for running jobs to reach a step boundary at shutdown, seconds.
    pub drain_s: u64,
    /// Lifetime of a session, seconds.
    pub session_s: u64,
    /// Maximum failed logins of an account or from an address within `login_window_s`; else 429.
    pub login_failures: u32,
    /// Window of `login_failures`, seconds.
    pub login_window_s: u64,
    /// Maximum requests of one user a minute, with accounts only; else 429; 0 turns it off.
    pub user_requests_per_minute: u32,
    /// Maximum accounts, `default` included; else 429.
    pub accounts: u64,
    /// Maximum API tokens of one user; else 429.
    pub tokens: u64,
    /// Maximum conversations of one user; else 429.
    pub conversations: u64,
    /// Maximum system prompt of a conversation, bytes; else 400.
    pub conversation_prompt_bytes: usize,
    /// Maximum projects of one user; else 429.
    pub projects: u64,
    /// Maximum bytes of a project's files together; else 413.
    pub project_bytes: u64,
    /// Maximum files and directories of a project; else 413.
    pub project_entries: u64,
    /// Maximum text file that is read or written whole, bytes; else 400.
    pub file_bytes: u64,
    /// Maximum upload, bytes; else 413.
    pub upload_bytes: u64,
    /// Maximum files of an upload; else 413.
    pub upload_files: u64,
    /// Maximum files that a search reads.
    pub search_files: u64,
    /// Timeout of a search, milliseconds.
    pub search_ms: u64,
    /// Default page size of lists.
    pub page: usize,
    /// Maximum page size.
    pub page_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 10 * 1024 * 1024,
            bodies_bytes: 64 * 1024 * 1024,
            header_bytes: 32 * 1024,
            headers: 100,
            header_timeout_s: 10,
            body_timeout_s: 60,
            write_stall_s: 60,
            connections: 12_000,
            wait_s: 600,
            input_bytes: 4 * 1024 * 1024,
            input_messages: 1_000,
            input_attachments: 20,
            metadata_pairs: 16,
            metadata_key_chars: 64,
            metadata_value_chars: 512,
            batch_bytes: 200 * 1024 * 1024,
            batch_lines: 50_000,
            batch_concurrency: 1_000,
            queue_jobs: 1_000_000,
            queue_ageing_s: 60,
            idempotency_s: 86_400,
            job_attempts: 20,
            job_backoff_s: 5,
            job_backoff_max_s: 600,
            schedules: 1_000,
            spawned_jobs: 8,
            message_chars: 4_000,
            disk_free_bytes: 256 * 1024 * 1024,
            disk_free_percent: 5,
            job_timeout_s: 3_600,
            job_timeout_max_s: 86_400,
            output_bytes: 4 * 1024 * 1024,
            tool_calls: 64,
            tool_arguments_bytes: 2 * 1024 * 1024,
            tool_result_chars: 16_000,
            tool_result_bytes: 4 * 1024 * 1024,
            tool_timeout_s: 60,
            approval_timeout_s: 86_400,
            model_failures: 4,
            repeated_failures: 3,
            model_idle_timeout_s: 120,
            model_connect_timeout_s: 10,
            model_wait_s: 5,
            model_circuit_failures: 5,
            model_circuit_open_s: 60,
            history_messages: 200,
            history_bytes: 1024 * 1024,
            crashes: 3,
            stuck_job_s: 300,
            drain_s: 25,
            session_s: 604_800,
            login_failures: 10,
            login_window_s: 900,
            user_requests_per_minute: 600,
            accounts: 10_000,
            tokens: 100,
            conversations: 10_000,
            conversation_prompt_bytes: 65_536,
            projects: 1_000,
            project_bytes: 1024 * 1024 * 1024,
            project_entries: 50_000,
            file_bytes: 5 * 1024 * 1024,
            upload_bytes: 200 * 1024 * 1024,
            upload_files: 10_000,
            search_files: 20_000,
            search_ms: 5_000,
            page: 20,
            page_max: 100,
        }
    }
}
