//! Help texts: the grouped first screen, the global options that each command uses, and examples.

use super::command_line::Cli;
use clap::builder::Styles;
use clap::{Arg, Command, CommandFactory};

/// The first screen: groups, each with commands and what they do.
const GROUPS: &[(&str, &[(&str, &str)])] = &[
    (
        "Server",
        &[
            ("serve, demo, nodes", "Run it; see a job survive a kill; list all nodes"),
            ("doctor, config", "What works on this machine; the configuration"),
            ("check, verify", "Is the store intact; was a log changed"),
            ("migrate", "Move the store into a database, or back"),
            ("backup, restore", "Copy the whole store into a file, and back"),
        ],
    ),
    (
        "Jobs",
        &[
            ("ask, chat", "Submit a job and stream its answer; a conversation"),
            ("tail, output", "Stream the events of a job; print its answer"),
            ("jobs, batch, eval", "List jobs; run files of jobs, or of prompts with checks"),
            ("list, show, delete", "Conversations, projects, schedules, models, usage …"),
            ("cancel, retry", "Cancel a job; run a failed one again"),
            ("approve, deny", "Decide about tool calls that wait for approval"),
            ("export, import", "Move ended jobs with their logs to another server"),
            ("replay", "Run a job anew over its log, or with another model"),
        ],
    ),
    (
        "Tools and code",
        &[
            ("exec", "Run a program in the sandbox, without a server"),
            ("tools, mcp", "List or call tools; add, list and check MCP servers"),
        ],
    ),
    (
        "Accounts and shell",
        &[
            ("user, token", "Accounts and their API tokens"),
            ("completions, man", "Completion scripts, manual pages"),
        ],
    ),
];

/// Example command lines. A test parses each of them.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("", &["nanoclaw ask 'What is 2^127 - 1, and is it prime?'"]),
    ("serve", &["nanoclaw serve --listen 127.0.0.1:8080 --data-dir /var/lib/nanoclaw"]),
    (
        "ask",
        &["nanoclaw ask 'What is 17 * 23?'", "git diff | nanoclaw ask --system 'Review this.' > review.md"],
    ),
    ("chat", &["nanoclaw chat --conversation trip"]),
    ("tail", &["nanoclaw tail job_01ARZ3NDEKTSV4RRFFQ69G5FAV --after 12"]),
    ("batch", &["nanoclaw batch jobs.jsonl -o results.jsonl"]),
    ("jobs", &["nanoclaw jobs --status failed", "nanoclaw jobs --json | jq -r '.data[].id'"]),
    ("list", &["nanoclaw list projects", "nanoclaw list usage --json"]),
    ("show", &["nanoclaw show job_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nanoclaw show conversations trip"]),
    ("delete", &["nanoclaw delete sched_01ARZ3NDEKTSV4RRFFQ69G5FAV"]),
    ("output", &["nanoclaw output job_01ARZ3NDEKTSV4RRFFQ69G5FAV > answer.txt"]),
    ("cancel", &["nanoclaw cancel job_01ARZ3NDEKTSV4RRFFQ69G5FAV"]),
    ("approve", &["nanoclaw jobs --status waiting", "nanoclaw approve job_01ARZ3NDEKTSV4RRFFQ69G5FAV"]),
    ("deny", &["nanoclaw deny job_01ARZ3NDEKTSV4RRFFQ69G5FAV --reason 'not on a Friday'"]),
    ("retry", &["nanoclaw retry job_01ARZ3NDEKTSV4RRFFQ69G5FAV"]),
    (
        "export",
        &[
            "nanoclaw export job_01ARZ3NDEKTSV4RRFFQ69G5FAV -o run.jsonl",
            "nanoclaw export --all > runs.jsonl",
        ],
    ),
    ("import", &["nanoclaw import run.jsonl --server http://127.0.0.1:8788"]),
    (
        "replay",
        &[
            "nanoclaw replay job_01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "nanoclaw replay run.jsonl --model demo --from 2",
        ],
    ),
    ("eval", &["nanoclaw eval cases.jsonl --model small --model large --html report.html"]),
    ("backup", &["nanoclaw backup /backups/nanoclaw-$(date +%F).redb"]),
    ("restore", &["nanoclaw restore /backups/nanoclaw-2026-01-31.redb --data-dir /var/lib/nanoclaw"]),
    ("check", &["nanoclaw check --data-dir /var/lib/nanoclaw"]),
    (
        "verify",
        &[
            "nanoclaw verify job_01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "nanoclaw verify --all --data-dir /var/lib/nanoclaw",
        ],
    ),
    ("nodes", &["nanoclaw nodes", "nanoclaw nodes --json | jq .warnings"]),
    (
        "migrate",
        &[
            "nanoclaw migrate --from /var/lib/nanoclaw/nanoclaw.redb --to postgres://nanoclaw@db/nanoclaw",
            "nanoclaw migrate --from store.url --to /var/lib/nanoclaw/nanoclaw.redb",
        ],
    ),
    (
        "user",
        &[
            "nanoclaw user add ann",
            "nanoclaw user setup-link",
            "pwgen 20 1 | nanoclaw user add ann --password-stdin",
        ],
    ),
    (
        "token",
        &["export NANOCLAW_TOKEN=$(nanoclaw token new)", "nanoclaw token new --user ann --expires-in 30d"],
    ),
    ("tools", &["nanoclaw tools", "nanoclaw tools call calculator '{\"expression\": \"6*7\"}'"]),
    ("exec", &["nanoclaw exec program.py", "echo 'print(6 * 7)' | nanoclaw exec --lang python -"]),
    ("doctor", &["nanoclaw doctor --config /etc/nanoclaw/config.yml"]),
    (
        "mcp",
        &[
            "nanoclaw mcp add memory -- npx -y @modelcontextprotocol/server-memory",
            "nanoclaw mcp check memory",
        ],
    ),
    ("config", &["nanoclaw config show --default > config.yml", "nanoclaw config check"]),
    ("completions", &["nanoclaw completions bash > /etc/bash_completion.d/nanoclaw"]),
    ("man", &["nanoclaw man /usr/local/share/man/man1", "nanoclaw man | man -l -"]),
];

/// The global options that a command uses. Its help hides the others, which clap still accepts.
fn used_options(command: &str) -> &'static [&'static str] {
    match command {
        "ask" | "chat" | "tail" | "batch" | "jobs" | "cancel" | "approve" | "deny" | "retry" | "list"
        | "show" | "delete" | "output" | "export" | "import" | "replay" | "eval" => {
            &["config", "server", "token"]
        }
        "backup" | "nodes" | "verify" => &["config", "data_dir", "server", "token"],
        "serve" | "restore" | "check" | "user" | "token" | "tools" | "doctor" | "config" => {
            &["config", "data_dir"]
        }
        "exec" | "mcp" | "migrate" => &["config"],
        _ => &[],
    }
}

/// The commands with their help, for parsing.
pub(super) fn command() -> Command {
    with_examples().help_template(first_screen())
}

/// The commands for manual pages and completion scripts, which have their own layout.
pub(super) fn manual() -> Command {
    with_examples()
}

fn with_examples() -> Command {
    let root = Cli::command().after_help(examples(""));
    let global: Vec<Arg> = root.get_arguments().filter(|arg| arg.is_global_set()).cloned().collect();
    root.mut_subcommands(|command| {
        let (used_options, after) = (used_options(command.get_name()), examples(command.get_name()));
        let hidden = global.iter().filter(|arg| !used_options.contains(&arg.get_id().as_str()));
        command.args(hidden.map(|arg| arg.clone().hide(true))).after_help(after)
    })
}

/// The first screen: description, groups of commands, options.
fn first_screen() -> String {
    let styles = Styles::styled();
    let (head, word) = (styles.get_header(), styles.get_literal());
    let mut screen = vec!["{about-with-newline}\n{usage-heading} {usage}\n".to_owned()];
    for (group, commands) in GROUPS {
        screen.push(format!("\n{head}{group}:{head:#}\n"));
        screen.extend(commands.iter().map(|(names, does)| format!("  {word}{names:<20}{word:#}{does}\n")));
    }
    screen.push(format!("\n{head}Options:{head:#}\n{{options}}{{after-help}}"));
    screen.concat()
}

fn examples(command: &str) -> String {
    let entry = EXAMPLES.iter().find(|(name, _)| *name == command);
    let lines: Vec<String> =
        entry.iter().flat_map(|(_, lines)| *lines).map(|line| format!("\n  {line}")).collect();
    if lines.is_empty() { String::new() } else { format!("Examples:{}", lines.concat()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_command_definitions_are_valid() {
        command().debug_assert();
    }

    #[test]
    fn the_overview_lists_every_command_once_and_each_has_an_example() {
        let root = command();
        let names: BTreeSet<&str> = root.get_subcommands().map(Command::get_name).collect();
        let shown: Vec<&str> =
            GROUPS.iter().flat_map(|(_, all)| *all).flat_map(|(n, _)| n.split(", ")).collect();
        assert_eq!(shown.len(), names.len());
        assert_eq!(shown.into_iter().collect::<BTreeSet<_>>(), names);
        for name in names.iter().filter(|name| **name != "demo") {
            assert!(!examples(name).is_empty(), "{name}");
        }
    }

    #[test]
    fn every_example_is_a_valid_command_line() {
        for line in EXAMPLES.iter().flat_map(|(_, lines)| *lines) {
            let line = line.replace("$(date +%F)", "2026-01-31");
            let start = line.find("nanoclaw ").expect("our name");
            let line = line[start..].split([')', '>', '|']).next().unwrap_or_default();
            let mut words: Vec<String> = Vec::new();
            for (at, quoted) in line.split('\'').enumerate() {
                match at % 2 {
                    0 => words.extend(quoted.split_whitespace().map(str::to_owned)),
                    _ => words.push(quoted.to_owned()),
                }
            }
            if let Err(refused) = command().try_get_matches_from(&words) {
                panic!("{words:?}: {refused}");
            }
        }
    }
}
