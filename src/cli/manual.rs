//! `nanoclaw man` and `nanoclaw completions`: manual pages and completion scripts, generated from the
//! commands.

use super::error::CliError;
use super::terminal::Terminal;
use clap_complete::Shell;
use clap_mangen::Man;
use std::path::{Path, PathBuf};

/// Completes ids of jobs and names of models and tools, which the server knows; the generated function does
/// the rest.
const BASH_IDS: &str = r#"
_nanoclaw_ids() {
    local kind=
    case "${COMP_WORDS[COMP_CWORD-1]}" in
        tail|output|cancel|retry|approve|deny|show|delete) kind=jobs ;;
        --model) kind=models ;;
        --tools) kind=tools ;;
    esac
    if [ -n "$kind" ]; then
        local ids="$(nanoclaw list "$kind" 2>/dev/null | tail -n +2 | cut -d ' ' -f 1)"
        COMPREPLY=($(compgen -W "$ids" -- "${COMP_WORDS[COMP_CWORD]}"))
        [ "${#COMPREPLY[@]}" -gt 0 ] && return 0
    fi
    _nanoclaw "$@"
}
complete -F _nanoclaw_ids -o bashdefault -o default nanoclaw
"#;

const FISH_IDS: &str = r"
function __nanoclaw_ids
    nanoclaw list $argv 2>/dev/null | tail -n +2 | string split -f 1 ' '
end
complete -c nanoclaw -n '__fish_seen_subcommand_from tail output cancel retry approve deny show delete' -f -a '(__nanoclaw_ids jobs)'
complete -c nanoclaw -n '__fish_seen_subcommand_from ask chat' -l model -x -a '(__nanoclaw_ids models)'
complete -c nanoclaw -n '__fish_seen_subcommand_from ask chat' -l tools -x -a '(__nanoclaw_ids tools)'
";

#[derive(Debug, clap::Args)]
pub(super) struct ManArgs {
    /// Directory for the pages of all commands [default: the main page on stdout]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Prints the main page, or writes all pages and prints their paths.
pub(super) fn man(args: &ManArgs, mut root: clap::Command, terminal: &Terminal) -> Result<(), CliError> {
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        Man::new(root).render(&mut page)?;
        return Ok(terminal.data(&String::from_utf8_lossy(&page))?);
    };
    std::fs::create_dir_all(dir).map_err(|error| cannot_write(dir, &error))?;
    root.build();
    write_pages(&root, dir, terminal)
}

/// Writes the pages of a command and of its subcommands.
fn write_pages(command: &clap::Command, dir: &Path, terminal: &Terminal) -> Result<(), CliError> {
    let page = Man::new(command.clone());
    let path = dir.join(page.get_filename());
    page.generate_to(dir).map_err(|error| cannot_write(&path, &error))?;
    terminal.line(&path.display().to_string())?;
    let mut subcommands = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    subcommands.try_for_each(|subcommand| write_pages(subcommand, dir, terminal))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> CliError {
    CliError::failed(format!("cannot write '{}': {error}", path.display()))
        .hint("name a directory that you may write to")
}

pub(super) fn completions(
    shell: Shell,
    mut commands: clap::Command,
    terminal: &Terminal,
) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut commands, "nanoclaw", &mut script);
    script.extend_from_slice(match shell {
        Shell::Bash => BASH_IDS.as_bytes(),
        Shell::Fish => FISH_IDS.as_bytes(),
        _ => &[],
    });
    Ok(terminal.data(&String::from_utf8_lossy(&script))?)
}
