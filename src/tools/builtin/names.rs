//! Groups of the built-in tools, and their names in other systems, which models have learnt.

use super::BUILTIN_NAMES;
use crate::domain::tool::{Aliases, ToolGroup};
use crate::ports::ToolOffer;

/// Names of one tool: the tool, its group, its offer, and its aliases.
#[derive(Clone, Copy)]
struct ToolNames {
    tool: &'static str,
    group: Option<ToolGroup>,
    offer: ToolOffer,
    aliases: Aliases,
}

const fn names(
    tool: &'static str,
    group: Option<ToolGroup>,
    foreign: &'static [&'static str],
    parameters: &'static [(&'static str, &'static str)],
) -> ToolNames {
    ToolNames { tool, group, offer: ToolOffer::Default, aliases: Aliases { names: &[], foreign, parameters } }
}

/// Not in the default set, because other tools do the same.
const fn wide(names: ToolNames) -> ToolNames {
    ToolNames { offer: ToolOffer::Wide, ..names }
}

const FILES: Option<ToolGroup> = Some(ToolGroup::Files);
const WEB: Option<ToolGroup> = Some(ToolGroup::Web);
const CODE: Option<ToolGroup> = Some(ToolGroup::Code);
const AGENTS: Option<ToolGroup> = Some(ToolGroup::Agents);

/// A parameter may have these names only where the tool has no parameter of that name.
const PATH: [(&str, &str); 4] =
    [("file_path", "path"), ("filepath", "path"), ("filename", "path"), ("file", "path")];

const TABLE: &[ToolNames] = &[
    ToolNames {
        aliases: Aliases {
            names: &["exec"],
            foreign: &[
                "shell",
                "run_command",
                "run_shell_command",
                "execute_command",
                "exec_command",
                "run_bash",
                "run_shell",
                "terminal",
                "run_terminal_cmd",
                "local_shell",
                "sh",
                "Bash",
            ],
            parameters: &[
                ("cmd", "command"),
                ("script", "command"),
                ("workdir", "working_dir"),
                ("cwd", "working_dir"),
            ],
        },
        ..names("bash", CODE, &[], &[])
    },
    names("calculator", None, &["calculate", "calc"], &[("expr", "expression"), ("input", "expression")]),
    wide(names("crawl_batch", WEB, &["fetch_pages", "web_fetch_batch"], &[])),
    names("cron", AGENTS, &["schedule", "create_schedule", "reminder"], &[]),
    wide(names(
        "execute_javascript",
        CODE,
        &["javascript", "run_javascript", "execute_js", "run_js", "node"],
        &[("script", "code"), ("source", "code")],
    )),
    names(
        "execute_python",
        CODE,
        &[
            "python",
            "run_python",
            "python_interpreter",
            "code_interpreter",
            "execute_code",
            "run_code",
            "ipython",
        ],
        &[("script", "code"), ("source", "code"), ("input", "code")],
    ),
    names(
        "fetch_page",
        WEB,
        &["web_fetch", "fetch", "fetch_url", "fetch_webpage", "read_url", "open_url", "get_url", "WebFetch"],
        &[("uri", "url"), ("link", "url")],
    ),
    wide(names("file_delete", FILES, &["delete_file", "remove_file"], &PATH)),
    names(
        "file_edit",
        FILES,
        &["edit_file", "str_replace", "replace_in_file", "search_replace", "Edit"],
        &[
            ("file_path", "path"),
            ("filename", "path"),
            ("file", "path"),
            ("old_string", "old_text"),
            ("new_string", "new_text"),
            ("old_str", "old_text"),
            ("new_str", "new_text"),
        ],
    ),
    wide(names("file_exists", FILES, &["exists", "path_exists", "get_file_info"], &PATH)),
    names(
        "file_list",
        FILES,
        &["list_dir", "list_directory", "list_files", "ls", "LS", "glob", "Glob"],
        &[("directory", "path"), ("dir", "path"), ("dir_path", "path"), ("glob", "pattern")],
    ),
    wide(names("file_mkdir", FILES, &["create_directory", "make_directory", "mkdir"], &PATH)),
    names(
        "file_read",
        FILES,
        &["read_file", "read_text_file", "view_file", "open_file", "cat", "Read"],
        &PATH,
    ),
    names(
        "file_search",
        FILES,
        &["search_files", "grep", "grep_search", "search_file_content", "ripgrep", "Grep"],
        &[("query", "pattern"), ("regex", "pattern"), ("directory", "path"), ("include", "glob")],
    ),
    names(
        "file_write",
        FILES,
        &["write_file", "create_file", "save_file", "write_to_file", "Write"],
        &[
            ("file_path", "path"),
            ("filepath", "path"),
            ("filename", "path"),
            ("file", "path"),
            ("text", "content"),
            ("contents", "content"),
            ("file_text", "content"),
        ],
    ),
    wide(names("get_weather", None, &["weather", "get_current_weather"], &[("location", "city")])),
    wide(names("json_process", None, &[], &[])),
    names(
        "memory",
        None,
        &["remember", "update_memory"],
        &[
            ("content", "text"),
            ("new_text", "text"),
            ("new_str", "text"),
            ("insert_text", "text"),
            ("old_str", "old_text"),
            ("insert_line", "line"),
        ],
    ),
    names("message", None, &["send_message"], &[("text", "content"), ("message", "content")]),
    names("multi_agent", AGENTS, &["task", "Task", "sub_agents", "delegate"], &[]),
    names("read_result", None, &[], &[]),
    names(
        "read_skill",
        None,
        &["Skill", "skill", "load_skill", "use_skill"],
        &[
            ("skill", "name"),
            ("skill_name", "name"),
            ("command", "name"),
            ("file_path", "path"),
            ("file", "path"),
        ],
    ),
    names("spawn", AGENTS, &["subagent", "background_task"], &[]),
    wide(names("text_process", None, &[], &[])),
    names(
        "web_search",
        WEB,
        &["search_web", "websearch", "google_search", "internet_search", "WebSearch"],
        &[("q", "query"), ("count", "max_results"), ("num_results", "max_results"), ("limit", "max_results")],
    ),
];

fn of(tool: &str) -> Option<&'static ToolNames> {
    TABLE.iter().find(|names| names.tool == tool)
}

/// The other names of a built-in tool.
pub(super) fn aliases(tool: &str) -> Aliases {
    of(tool).map(|names| names.aliases).unwrap_or_default()
}

/// The group of a built-in tool.
pub(super) fn group(tool: &str) -> Option<ToolGroup> {
    of(tool)?.group
}

/// Which choices offer a built-in tool. A tool without an entry is offered by default.
pub(super) fn offer(tool: &str) -> ToolOffer {
    of(tool).map_or(ToolOffer::Default, |names| names.offer)
}

/// The names of tools that MCP clients of this server are offered.
pub(super) const RUN_JAVASCRIPT: &str = "run_javascript";
pub(super) const RUN_PYTHON: &str = "run_python";
pub(super) const RUN_SHELL: &str = "run_shell";

/// Every name of a built-in tool that the configuration may use, whether the tool is on or not.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    let aliases = TABLE.iter().flat_map(|names| names.aliases.names.iter().copied());
    BUILTIN_NAMES.iter().copied().chain(aliases).chain([RUN_JAVASCRIPT, RUN_PYTHON, RUN_SHELL])
}

/// The built-in tool that other systems call so.
pub fn builtin_of_foreign_name(name: &str) -> Option<&'static str> {
    TABLE.iter().find(|names| names.aliases.foreign.contains(&name)).map(|names| names.tool)
}
