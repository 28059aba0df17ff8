//! `nanoclaw man` and `nanoclaw completions`: manual pages and completion scripts, generated from the
//! commands.

use super::error::CliError;
use super::terminal::Terminal;
use clap_complete::shells;
use clap_mangen::Man;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(super) struct ManArgs {
    /// Directory for the pages of all commands [default: the main page on stdout]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// The supported shells.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the main page, or writes all pages and prints their paths.
pub(super) fn man(args: &ManArgs, mut root: clap::Command, terminal: &Terminal) -> Result<(), CliError> {
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        Man::new(root).render(&mut page)?;
        return Ok(terminal.data(&String::from_utf8_lossy(&page))?);
    };
    let cannot = |path: &Path, why: std::io::Error| {
        CliError::failed(format!("cannot write '{}': {why}", path.display()))
            .hint("name a directory that you may write to")
    };
    std::fs::create_dir_all(dir).map_err(|why| cannot(dir, why))?;
    root.build();
    let mut pages = Vec::new();
    collect(&root, &mut pages);
    for (name, page) in pages {
        let path = dir.join(name);
        std::fs::write(&path, page?).map_err(|why| cannot(&path, why))?;
        terminal.line(&path.display().to_string())?;
    }
    Ok(())
}

/// File name and content.
type ManualPage = (String, std::io::Result<Vec<u8>>);

fn collect(command: &clap::Command, pages: &mut Vec<ManualPage>) {
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    let rendered = man.render(&mut page);
    pages.push((man.get_filename(), rendered.map(|()| page)));
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        collect(below, pages);
    }
}

pub(super) fn completions(
    shell: Shell,
    mut commands: clap::Command,
    terminal: &Terminal,
) -> Result<(), CliError> {
    let mut script = Vec::new();
    let name = "nanoclaw";
    match shell {
        Shell::Bash => clap_complete::generate(shells::Bash, &mut commands, name, &mut script),
        Shell::Zsh => clap_complete::generate(shells::Zsh, &mut commands, name, &mut script),
        Shell::Fish => clap_complete::generate(shells::Fish, &mut commands, name, &mut script),
    }
    Ok(terminal.data(&String::from_utf8_lossy(&script))?)
}
