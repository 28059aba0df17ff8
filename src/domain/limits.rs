//! Every limit of P8 with its unit in its name, its default, and the range that an operator may set.

use super::delivery_turns::DELIVERY_PLACES;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const EIB: u64 = 1 << 60;
const DAY_S: u64 = 86_400;

/// File descriptors that the server needs beside those of client connections: one for each webhook under
/// way, and others.
pub const SERVER_FILES: u64 = DELIVERY_PLACES as u64 + 256;

/// Name of a number in the configuration, and the values that are allowed.
pub type NumberRange = (&'static str, RangeInclusive<u64>);

/// A line for each limit: name, type, default, range.
macro_rules! limits {
    ($($(#[doc = $doc:literal])+ $name:ident: $kind:ty = $default:expr, $range:expr;)*) => {
        /// Limits; `limits:` in the configuration. A test compares `config/default.yml` with them.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Limits {
            $($(#[doc = $doc])+ pub $name: $kind,)*
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl Limits {
            /// The range of each limit.
            pub const RANGES: &'static [NumberRange] = &[$((stringify!($name), $range),)*];
        }
    };
}

limits! {
    /// Maximum request body, bytes; else 413.
    body_bytes: usize = 10 * 1024 * 1024, KIB..=GIB;
    /// Maximum bytes of all request bodies in flight; else 503.
    bodies_bytes: usize = 64 * 1024 * 1024, KIB..=64 * GIB;
    /// Maximum bytes of all large answers that are made and sent at the same time; else 503.
    answers_bytes: usize = 128 * 1024 * 1024, MIB..=64 * GIB;
    /// Maximum request line and headers together, bytes; else 431.
    header_bytes: usize = 32 * 1024, 8 * KIB..=MIB;
    /// Maximum header lines of a request.
    headers: usize = 100, 16..=1_000;
    /// Time for a request's head to arrive, seconds.
    header_timeout_s: u64 = 10, 1..=3_600;
    /// Time for a request's body to arrive, seconds; else 408.
    body_timeout_s: u64 = 60, 1..=3_600;
    /// Write timeout: a client that reads nothing for so long is disconnected, seconds.
    write_stall_s: u64 = 60, 1..=3_600;
    /// Maximum open connections; more wait in the kernel's backlog.
    connections: usize = 12_000, 1..=1_000_000;
    /// Maximum `?wait=`, seconds.
    wait_s: u64 = 600, 1..=3_600;
    /// Maximum bytes of a job's messages together.
    input_bytes: usize = 4 * 1024 * 1024, KIB..=GIB;
    /// Maximum messages in a job's `input`.
    input_messages: usize = 1_000, 1..=100_000;
    /// Maximum files attached to one message.
    input_attachments: usize = 20, 0..=10_000;
    /// Maximum images of a job, those of earlier turns in its request included; else 400.
    input_images: usize = 20, 0..=1_000;
    /// Maximum image, bytes; else 400.
    image_bytes: usize = 5 * 1024 * 1024, KIB..=64 * MIB;
    /// Maximum run that is imported, bytes; else 413.
    import_bytes: usize = 32 * 1024 * 1024, KIB..=GIB;
    /// Maximum metadata pairs of a job.
    metadata_pairs: usize = 16, 0..=1_000;
    /// Maximum metadata key, characters.
    metadata_key_chars: usize = 64, 1..=1_024;
    /// Maximum metadata value, characters.
    metadata_value_chars: usize = 512, 1..=64 * KIB;
    /// Maximum bytes of a batch's lines together; else 413.
    batch_bytes: u64 = 200 * 1024 * 1024, KIB..=4 * GIB;
    /// Maximum lines of a batch.
    batch_lines: usize = 50_000, 1..=1_000_000;
    /// Maximum jobs of one batch in the queue at once.
    batch_concurrency: u32 = 1_000, 1..=10_000;
    /// Maximum unfinished jobs in the store; else 429.
    queue_jobs: u64 = 1_000_000, 1..=100_000_000;
    /// Queue ageing: waiting for so long counts as one priority level, seconds; 0 turns it off.
    queue_ageing_s: u64 = 60, 0..=DAY_S;
    /// Retention of an `Idempotency-Key`, seconds.
    idempotency_s: u64 = 86_400, 1..=30 * DAY_S;
    /// Maximum jobs that one job may come after (`after`).
    job_predecessors: usize = 32, 1..=256;
    /// Maximum jobs that may wait for the end of one job; else 429.
    job_dependents: u64 = 1_000, 1..=10_000;
    /// Maximum answer that a prompt shows for a reference to another job's result, bytes.
    job_result_bytes: usize = 64 * 1024, 256..=16 * MIB;
    /// Maximum `max_attempts` of a job.
    job_attempts: u32 = 20, 1..=1_000;
    /// Delay before a failed job's second attempt, seconds; doubles with each attempt.
    job_backoff_s: u64 = 5, 0..=DAY_S;
    /// Maximum delay between attempts, seconds.
    job_backoff_max_s: u64 = 600, 0..=7 * DAY_S;
    /// Maximum schedules of one user; else 429.
    schedules: u64 = 1_000, 0..=1_000_000;
    /// Minimum interval of a schedule of a user who is no administrator, seconds; with accounts only.
    schedule_s: u64 = 60, 0..=DAY_S;
    /// Minimum interval of a schedule that a model makes, seconds.
    model_schedule_s: u64 = 60, 0..=DAY_S;
    /// Maximum schedules of one user that models have made; more is an error for the model.
    model_schedules: u64 = 20, 0..=1_000_000;
    /// Maximum tokens a UTC day for the jobs of all schedules that a user's models have made; above it their
    /// occurrences are skipped. 0 turns it off.
    model_schedule_tokens: u64 = 1_000_000, 0..=EIB;
    /// Maximum unfinished background jobs that one user's models have started; more is an error for the
    /// model.
    spawned_jobs: u64 = 8, 0..=1_000;
    /// Maximum characters of one message to a channel.
    message_chars: usize = 4_000, 1..=65_536;
    /// Free disk space to reserve, bytes; below it new work gets a 507. 0 turns it off.
    disk_free_bytes: u64 = 256 * 1024 * 1024, 0..=EIB;
    /// Free disk space to reserve, percent of the disk, at most 4 GiB. The larger of both limits holds; 0
    /// turns it off.
    disk_free_percent: u64 = 5, 0..=100;
    /// Default `timeout_s` of a job.
    job_timeout_s: u64 = 3_600, 1..=30 * DAY_S;
    /// Maximum `timeout_s` of a job.
    job_timeout_max_s: u64 = 86_400, 1..=30 * DAY_S;
    /// Maximum answer of a model with its thinking, bytes; more ends the job.
    output_bytes: usize = 4 * 1024 * 1024, KIB..=GIB;
    /// Maximum tool calls in one answer; more ends the job with `output_too_large`.
    tool_calls: usize = 64, 1..=1_024;
    /// Maximum arguments of one tool call, bytes; more ends the job with `output_too_large`.
    tool_arguments_bytes: usize = 2 * 1024 * 1024, KIB..=64 * MIB;
    /// Maximum tool result that the model sees, characters.
    tool_result_chars: usize = 16_000, 256..=10_000_000;
    /// Maximum full tool result that is stored for the model to page through, bytes.
    tool_result_bytes: usize = 4 * 1024 * 1024, 1_024..=268_435_456;
    /// Timeout of one tool call, seconds; the time that a command asks for is added.
    tool_timeout_s: u64 = 60, 1..=3_600;
    /// Consecutive failed model calls that make the job fail.
    model_failures: u32 = 4, 1..=100;
    /// How long calls wait for an approval before they count as denied, seconds.
    approval_timeout_s: u64 = 86_400, 1..=30 * DAY_S;
    /// Failures of the same tool call after which a run ends with a partial answer.
    repeated_failures: u32 = 3, 1..=1_000;
    /// Maximum time between two pieces of a model's answer, seconds. Five times as long may pass while only
    /// comments and pings arrive.
    model_idle_timeout_s: u64 = 120, 1..=3_600;
    /// Connect timeout of model providers, seconds.
    model_connect_timeout_s: u64 = 10, 1..=600;
    /// Maximum wait for a provider's rate limiter, seconds; a job that has to wait longer returns to the
    /// queue.
    model_wait_s: u64 = 5, 0..=60;
    /// Consecutive failures that open a provider's circuit breaker; 0 turns it off.
    model_circuit_failures: u32 = 5, 0..=1_000;
    /// Maximum time between two tries while the breaker is open, seconds.
    model_circuit_open_s: u64 = 60, 1..=3_600;
    /// Maximum messages that a conversation passes to its next job.
    history_messages: usize = 200, 0..=100_000;
    /// Maximum bytes that a conversation passes to its next job.
    history_bytes: usize = 1024 * 1024, KIB..=GIB;
    /// Consecutive crashes that make a job poison.
    crashes: u32 = 3, 1..=100;
    /// A running job whose log has not grown for so long is logged as stalled, seconds; 0 turns it off.
    stuck_job_s: u64 = 300, 0..=DAY_S;
    /// Time for running jobs to reach a step boundary at shutdown, seconds.
    drain_s: u64 = 25, 0..=3_600;
    /// Lifetime of a session, seconds.
    session_s: u64 = 604_800, 60..=365 * DAY_S;
    /// Maximum failed logins of an account or from an address within `login_window_s`; else 429.
    login_failures: u32 = 10, 1..=1_000_000;
    /// Window of `login_failures`, seconds.
    login_window_s: u64 = 900, 1..=DAY_S;
    /// Maximum requests of one user a minute, with accounts only; else 429; 0 turns it off.
    user_requests_per_minute: u32 = 600, 0..=100_000_000;
    /// Maximum accounts, `default` included; else 429.
    accounts: u64 = 10_000, 2..=100_000_000;
    /// Maximum API tokens of one user; else 429.
    tokens: u64 = 100, 0..=100_000;
    /// Maximum conversations of one user; else 429.
    conversations: u64 = 10_000, 1..=100_000_000;
    /// Maximum system prompt of a conversation, bytes; else 400.
    conversation_prompt_bytes: usize = 65_536, KIB..=16 * MIB;
    /// Maximum projects of one user; else 429.
    projects: u64 = 1_000, 0..=1_000_000;
    /// Maximum bytes of a project's files together; else 413.
    project_bytes: u64 = 1024 * 1024 * 1024, 0..=EIB;
    /// Maximum files and directories of a project; else 413.
    project_entries: u64 = 50_000, 0..=100_000_000;
    /// Maximum bytes in the directory of one job without a project; else an error for the model.
    job_bytes: u64 = 1024 * 1024 * 1024, 0..=EIB;
    /// Maximum files, directories and links in the directory of one job without a project.
    job_entries: u64 = 100_000, 0..=100_000_000;
    /// Maximum bytes in the directories of all jobs of one user.
    user_job_bytes: u64 = 10 * 1024 * 1024 * 1024, 0..=EIB;
    /// Maximum files, directories and links in the directories of all jobs of one user.
    user_job_entries: u64 = 1_000_000, 0..=1_000_000_000;
    /// Maximum text file in one read or write, bytes; else 400.
    file_bytes: u64 = 5 * 1024 * 1024, KIB..=GIB;
    /// Maximum upload, bytes; else 413.
    upload_bytes: u64 = 200 * 1024 * 1024, KIB..=64 * GIB;
    /// Maximum files of an upload; else 413.
    upload_files: u64 = 10_000, 1..=1_000_000;
    /// Maximum files of `/v1/files` of one user; else 429.
    user_files: u64 = 10_000, 0..=1_000_000;
    /// Maximum bytes of the files of `/v1/files` of one user together; else 413.
    user_files_bytes: u64 = 10 * 1024 * 1024 * 1024, 0..=EIB;
    /// Maximum files that a search reads.
    search_files: u64 = 20_000, 1..=10_000_000;
    /// Timeout of a search, milliseconds.
    search_ms: u64 = 5_000, 1..=600_000;
    /// Default page size of lists.
    page: usize = 20, 1..=1_000;
    /// Maximum page size.
    page_max: usize = 100, 1..=1_000;
}
