//! The tests whose subject is the file of the redb store. They run on it whichever store the others use.

/// Modules, or single tests.
const FILE_TESTS: &[&str] = &[
    "answer_load::",
    "bit_rot::",
    "disk_errors::",
    "maintenance::",
    "power_loss::",
    "store_targets::",
    "torn_writes::",
    "crash_recovery::a_damaged_store_gives_an_error_with_a_hint_instead_of_a_panic",
    "doctor::doctor_queries_a_running_server_and_does_not_open_its_store",
    "files::a_check_of_the_closed_store_names_contents_that_are_missing",
    // Other nodes may still write to what looks left over, so it stays for an hour.
    "files::p1_files_survive_kill_9_and_the_next_start_removes_what_no_file_has",
    "logs::readyz_reports_a_nearly_full_disk_and_reads_still_work",
    "logs::a_slow_commit_is_logged_with_its_writes_and_file_size",
    "status::a_check_says_what_is_wrong_and_what_helps",
    // Nodes write the audit log into a table.
    "mcp_server::programs::calls_are_audited_like_those_of_models",
    "tools::p9_the_audit_log_contains_every_call_and_no_secret",
    // It names a directory of workspaces, which nodes would have to share.
    "original_nanoclaw::a_configuration_of_the_original_starts_the_server_and_its_keys_are_named_in_one_message",
    // A node is asked for its address because it locks the file of its store. Nodes share a database.
    "users_cli::p9_a_foreign_server_at_the_control_address_gets_no_password",
    // On a database these jobs are stored from their beginning, and run on after a crash.
    "volatile_jobs::a_crash_loses_a_request_without_store_and_nothing_else",
];

/// Whether this thread runs one of them.
pub(crate) fn is_running() -> bool {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or_default();
    FILE_TESTS.iter().any(|test| name.starts_with(test))
}
