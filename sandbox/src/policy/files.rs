//! The landlock layer: every right that the kernel knows is handled, and only the listed paths are opened again.
//!
//! Refuses: best effort. If the kernel cannot do what its ABI promises, nothing runs.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, Scope,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::sys;

/// The ABI that mediates moving files between directories; below it, such moves fail.
const REFER_ABI: u32 = 2;
/// The ABI that mediates TCP.
const TCP_ABI: u32 = 4;
/// The ABI that scopes abstract unix sockets and signals.
pub(crate) const SCOPE_ABI: u32 = 6;

/// What a path may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Access {
    /// A library directory: its files and their names.
    ReadTree,
    /// One file.
    ReadFile,
    /// One file, also as a program (the interpreter and its loader, before the filters forbid exec).
    ExecuteFile,
    /// A system directory: its files, their names, and as programs.
    ExecuteTree,
    /// `/dev/null`.
    ReadWriteFile,
    /// A private directory: everything but programs, devices, sockets and pipes.
    OwnTree,
}

/// One opened path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct FileRule {
    /// The path.
    pub path: PathBuf,
    /// What for.
    pub access: Access,
}

/// Landlock could not be applied as demanded.
#[derive(Debug, Error)]
pub(crate) enum FilesError {
    /// The ruleset was refused.
    #[error("landlock: {0}")]
    Ruleset(#[from] RulesetError),
    /// A path of the policy cannot be opened.
    #[error("landlock: {0}")]
    Path(#[from] landlock::PathFdError),
    /// The kernel has no such rulesets.
    #[error("landlock: the rules cannot be enforced")]
    Partial,
    /// The ruleset could not be put in force.
    #[error("landlock: cannot restrict the process: {0}")]
    Restrict(io::Error),
}

/// How much of a process's doings a ruleset is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Every right that the kernel knows.
    Files,
    /// What no child of a zygote may ever have: programs, devices, sockets, TCP, signals. Its children decide on files.
    Ceiling,
    /// Signals and abstract sockets alone: a wall inside an outer domain.
    Signals,
}

/// What a ruleset is made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Domain {
    /// The kernel's ABI.
    pub abi: u32,
    /// What it mediates.
    pub reach: Reach,
    /// Whether TCP is left alone.
    pub has_network: bool,
}

impl Domain {
    fn handled(self, abi: ABI) -> BitFlags<AccessFs> {
        let never = AccessFs::Execute
            | AccessFs::MakeChar
            | AccessFs::MakeBlock
            | AccessFs::MakeSock
            | AccessFs::MakeFifo
            | AccessFs::IoctlDev;
        match self.reach {
            Reach::Files => AccessFs::from_all(abi),
            // Moving is denied in every domain that does not speak of it: this one does, to leave it open.
            Reach::Ceiling => (never | AccessFs::Refer) & AccessFs::from_all(abi),
            Reach::Signals => BitFlags::empty(),
        }
    }
}

/// Makes a ruleset: a descriptor that a process may be restricted with.
pub(crate) fn build_ruleset(domain: Domain, rules: &[FileRule]) -> Result<OwnedFd, FilesError> {
    let abi = ABI::from(i32::try_from(domain.abi).unwrap_or(i32::MAX));
    let handled = domain.handled(abi);
    let mut ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    if !handled.is_empty() {
        ruleset = ruleset.handle_access(handled)?;
    }
    if domain.abi >= TCP_ABI && domain.reach != Reach::Signals && !domain.has_network {
        ruleset = ruleset.handle_access(AccessNet::from_all(abi))?;
    }
    if domain.abi >= SCOPE_ABI {
        ruleset = ruleset.scope(Scope::from_all(abi))?;
    }
    let mut created = ruleset.create()?;
    for rule in rules {
        let rights = rights(rule.access, abi) & handled;
        if !rights.is_empty() {
            created = created.add_rule(PathBeneath::new(PathFd::new(&rule.path)?, rights))?;
        }
    }
    if domain.reach == Reach::Ceiling && domain.abi >= REFER_ABI {
        created = created.add_rule(PathBeneath::new(PathFd::new("/")?, AccessFs::Refer))?;
    }
    Option::<OwnedFd>::from(created).ok_or(FilesError::Partial)
}

/// Restricts the calling thread for good. No-new-privs must be set.
pub(crate) fn restrict(domain: Domain, rules: &[FileRule]) -> Result<(), FilesError> {
    #[cfg(feature = "ablation")]
    if crate::ablation::lacks(crate::ablation::Layer::Landlock) {
        return Ok(());
    }
    let ruleset = build_ruleset(domain, rules)?;
    sys::restrict_self(ruleset.as_fd()).map_err(FilesError::Restrict)
}

/// The number of the call that puts a ruleset in force, for a zygote's children, who make it themselves.
pub(crate) fn restriction_number() -> i64 {
    #[cfg(feature = "ablation")]
    if crate::ablation::lacks(crate::ablation::Layer::Landlock) {
        return crate::ablation::IDLE_CALL;
    }
    libc::SYS_landlock_restrict_self
}

fn rights(access: Access, abi: ABI) -> BitFlags<AccessFs> {
    match access {
        Access::ReadTree => AccessFs::ReadFile | AccessFs::ReadDir,
        Access::ReadFile => AccessFs::ReadFile.into(),
        Access::ExecuteFile => AccessFs::ReadFile | AccessFs::Execute,
        Access::ExecuteTree => AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::Execute,
        Access::ReadWriteFile => AccessFs::ReadFile | AccessFs::WriteFile,
        Access::OwnTree => {
            let wanted = AccessFs::ReadFile
                | AccessFs::ReadDir
                | AccessFs::WriteFile
                | AccessFs::RemoveFile
                | AccessFs::RemoveDir
                | AccessFs::MakeReg
                | AccessFs::MakeDir
                | AccessFs::MakeSym
                | AccessFs::Refer
                | AccessFs::Truncate;
            wanted & AccessFs::from_all(abi)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_own_tree_has_no_programs_devices_or_sockets() {
        let own = rights(Access::OwnTree, ABI::V7);
        for right in [
            AccessFs::Execute,
            AccessFs::MakeChar,
            AccessFs::MakeBlock,
            AccessFs::MakeSock,
            AccessFs::MakeFifo,
        ] {
            assert!(!own.contains(right), "{right:?}");
        }
    }

    #[test]
    fn old_kernels_are_not_asked_for_new_rights() {
        assert!(!rights(Access::OwnTree, ABI::V1).contains(AccessFs::Truncate));
    }
}
