//! The result record of a run: SANDBOX.md's fields and statuses.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::level::{Language, Level};

/// How a run ended, in the parent's own view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It exited with code 0.
    Ok,
    /// It exited with another code (an uncaught error, `sys.exit(n)`), or had too many threads (`limit` = `processes`).
    Error,
    /// Refused before it ran: a module that the level does not allow.
    ModuleNotAllowed,
    /// Refused before it ran: a builtin that the level does not allow.
    BuiltinNotAllowed,
    /// Refused before it ran: it does not parse, is empty, too long, or holds a NUL byte.
    SyntaxError,
    /// Wall clock or processor time ran out (`limit` says which), or the caller cancelled (`limit` = `cancelled`).
    Timeout,
    /// Its memory ran out, confirmed by the kernel's figures or by the engine's allocator.
    Oom,
    /// It wrote more than the level keeps: output, or its private directory (`limit` says which).
    OutputLimit,
    /// The kernel killed it for a forbidden system call.
    ForbiddenSyscall,
    /// Another signal ended it.
    Crash,
    /// A layer could not be applied: nothing ran.
    SandboxError,
}

impl RunStatus {
    /// The name used in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::ModuleNotAllowed => "module_not_allowed",
            Self::BuiltinNotAllowed => "builtin_not_allowed",
            Self::SyntaxError => "syntax_error",
            Self::Timeout => "timeout",
            Self::Oom => "oom",
            Self::OutputLimit => "output_limit",
            Self::ForbiddenSyscall => "forbidden_syscall",
            Self::Crash => "crash",
            Self::SandboxError => "sandbox_error",
        }
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// What a run left. Text fields may hold anything that the guest wrote; the others are the parent's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// How it ended.
    pub status: RunStatus,
    /// The exit code, unless a signal ended it or nothing ran.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The limit that ended it, by its name in `RunLimits` (or `cancelled`, `code_bytes`).
    pub limit: Option<String>,
    /// Standard output, invalid UTF-8 replaced, cut at the level's cap.
    pub stdout: String,
    /// Standard error likewise; it ends with the traceback, or is the refusal if the program was refused before it ran.
    pub stderr: String,
    /// Whether `stdout` lacks something.
    pub stdout_truncated: bool,
    /// Whether `stderr` lacks something.
    pub stderr_truncated: bool,
    /// The last expression's value (`repr` in Python), if there was one and the program ended well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Why it did not end well, in words: the traceback, the refusal, the limit, the layer that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Wall clock, from the start of the child.
    pub duration_ms: u64,
    /// Processor time, user and system.
    pub cpu_ms: u64,
    /// Peak resident memory.
    pub max_rss_kb: u64,
    /// The level.
    pub level: Level,
    /// The language.
    pub engine: Language,
    /// The engine's version; empty when there is no engine.
    pub engine_version: String,
}

impl RunRecord {
    /// The record of a program that never ran.
    pub(crate) fn unrun(status: RunStatus, level: Level, engine: Language, error: String) -> Self {
        Self {
            status,
            exit_code: None,
            signal: None,
            limit: None,
            stdout: String::new(),
            stderr: error.clone(),
            stdout_truncated: false,
            stderr_truncated: false,
            result: None,
            error: Some(error),
            duration_ms: 0,
            cpu_ms: 0,
            max_rss_kb: 0,
            level,
            engine,
            engine_version: String::new(),
        }
    }
}
