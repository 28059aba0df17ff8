//! Every bound of P8, each with its unit in its name. Owns the defaults; refuses to enforce them (whoever is bounded does).

use serde::{Deserialize, Serialize};

/// The bounds; `limits:` in the configuration. A test holds `config/default.yml` against these defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Request body, bytes; more is a 413.
    pub body_bytes: usize,
    /// Request bodies under way, together, bytes; more is a 503.
    pub bodies_bytes: usize,
    /// Request line and headers together, bytes; more is a 431.
    pub header_bytes: usize,
    /// Header lines of a request.
    pub headers: usize,
    /// Time for a request's head to arrive, seconds.
    pub header_timeout_s: u64,
    /// Time for a request's body to arrive, seconds; more is a 408.
    pub body_timeout_s: u64,
    /// A write to a client that makes no progress for so long closes the connection, seconds.
    pub write_stall_s: u64,
    /// Connections at once; more wait in the kernel's backlog.
    pub connections: usize,
    /// Longest `?wait=`, seconds.
    pub wait_s: u64,
    /// A job's messages together, bytes.
    pub input_bytes: usize,
    /// Messages in a job's `input`.
    pub input_messages: usize,
    /// Files that come with one message of an `input`.
    pub input_attachments: usize,
    /// A job's pairs of metadata.
    pub metadata_pairs: usize,
    /// A metadata key, characters.
    pub metadata_key_chars: usize,
    /// A metadata value, characters.
    pub metadata_value_chars: usize,
    /// A batch's lines together, bytes; more is a 413.
    pub batch_bytes: u64,
    /// Lines of a batch.
    pub batch_lines: usize,
    /// Most jobs of one batch in the queue at once.
    pub batch_concurrency: u32,
    /// Unfinished jobs in the store; more is a 429.
    pub queue_jobs: u64,
    /// Waiting that counts as much as one priority, seconds; 0: waiting counts for nothing.
    pub queue_ageing_s: u64,
    /// How long an `Idempotency-Key` is remembered, seconds.
    pub idempotency_s: u64,
    /// Largest `max_attempts` of a job.
    pub job_attempts: u32,
    /// Time before a failed job's second attempt, seconds; it doubles with each further one.
    pub job_backoff_s: u64,
    /// Longest time before another attempt, seconds.
    pub job_backoff_max_s: u64,
    /// Schedules of one user; more is a 429.
    pub schedules: u64,
    /// Background jobs of one user that its models have begun and that have not ended; more is an error to the model.
    pub spawned_jobs: u64,
    /// What a model may send through a channel at once, characters.
    pub message_chars: usize,
    /// What stays free on the store's disk, bytes; below it new work is a 507. 0: no such bound.
    pub disk_free_bytes: u64,
    /// The same as a share of the disk, percent, but 4 GiB at most; the larger one holds. 0: no such bound.
    pub disk_free_percent: u64,
    /// What a job gets that names no `timeout_s`, seconds.
    pub job_timeout_s: u64,
    /// Longest `timeout_s`, seconds.
    pub job_timeout_max_s: u64,
    /// One answer of a model with its thinking, bytes; more ends the job.
    pub output_bytes: usize,
    /// Tool calls in one answer; more ends the job with `output_too_large`.
    pub tool_calls: usize,
    /// Arguments of one tool call, bytes; more ends the job with `output_too_large`.
    pub tool_arguments_bytes: usize,
    /// A tool's result as the model sees it, characters.
    pub tool_result_chars: usize,
    /// The same result as it is kept for the model to page through, bytes.
    pub tool_result_bytes: usize,
    /// Longest run of one tool call, seconds; the time that a command asks for comes on top.
    pub tool_timeout_s: u64,
    /// Failed calls to a model in a row before the job fails.
    pub model_failures: u32,
    /// How long calls wait for somebody's approval before they count as denied, seconds.
    pub approval_timeout_s: u64,
    /// Failures of one and the same tool call in a run before it is closed with what there is.
    pub repeated_failures: u32,
    /// Time between two chunks of a model's answer, seconds; five times as long may pass while something comes that is no
    /// part of one.
    pub model_idle_timeout_s: u64,
    /// Time to connect to a model's provider, seconds.
    pub model_connect_timeout_s: u64,
    /// Longest wait in place for a turn at a model's provider, seconds; a job that has to wait longer goes back to the
    /// queue.
    pub model_wait_s: u64,
    /// Calls in a row that find a provider down before it is asked no more for a while; 0: it is always asked.
    pub model_circuit_failures: u32,
    /// The longest time between two tries of a provider that is down, seconds.
    pub model_circuit_open_s: u64,
    /// Messages of earlier jobs that a conversation hands to the next one.
    pub history_messages: usize,
    /// The same, bytes.
    pub history_bytes: usize,
    /// Crashes in a row that make a job poison.
    pub crashes: u32,
    /// A running job whose log has not grown for so long is named in the server's log, seconds; 0: none is.
    pub stuck_job_s: u64,
    /// Time that running jobs get to reach a step boundary at shutdown, seconds.
    pub drain_s: u64,
    /// How long a session lasts, seconds.
    pub session_s: u64,
    /// Failed logins of an account, or from an address, within `login_window_s`; more is a 429.
    pub login_failures: u32,
    /// See `login_failures`, seconds.
    pub login_window_s: u64,
    /// Requests of one user in a minute where there are accounts; more is a 429; 0: no bound.
    pub user_requests_per_minute: u32,
    /// Accounts, `default` included; more is a 429.
    pub accounts: u64,
    /// API tokens of one user; more is a 429.
    pub tokens: u64,
    /// Conversations of one user; more is a 429.
    pub conversations: u64,
    /// The system prompt of a conversation, bytes; more is a 400.
    pub conversation_prompt_bytes: usize,
    /// Projects of one user; more is a 429.
    pub projects: u64,
    /// Files of one project together, bytes; more is a 413.
    pub project_bytes: u64,
    /// Files and directories of one project; more is a 413.
    pub project_entries: u64,
    /// A text file that is read or written whole, bytes; more is a 400.
    pub file_bytes: u64,
    /// An upload, bytes; more is a 413.
    pub upload_bytes: u64,
    /// Files of an upload; more is a 413.
    pub upload_files: u64,
    /// Files that a search looks into.
    pub search_files: u64,
    /// How long a search may take, milliseconds.
    pub search_ms: u64,
    /// Page size of lists when none is asked for.
    pub page: usize,
    /// Largest page size.
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
