//! Commands: the host's shell, its environment, and the supervisor that ends every process of a command.

mod environment;
mod process_tree;
mod supervisor;
mod toolchains;

pub(crate) use environment::{environment, files, find_shell, readable_dirs, system_files};
pub(crate) use process_tree::children_of_this_thread;
pub(crate) use supervisor::supervise;
