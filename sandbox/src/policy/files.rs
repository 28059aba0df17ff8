//! The landlock layer: every right that the kernel knows is handled, and only the listed paths are opened again.
//!
//! Refuses: best effort. If the kernel cannot do what its ABI promises, nothing runs.

use std::path::PathBuf;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The ABI that mediates TCP.
const TCP_ABI: u32 = 4;
/// The ABI that scopes abstract unix sockets and signals.
const SCOPE_ABI: u32 = 6;

/// What a path may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Access {
    /// A library directory: its files and their names.
    ReadTree,
    /// One file.
    ReadFile,
    /// One file, also as a program (the interpreter and its loader, before the filters forbid exec).
    ExecuteFile,
    /// `/dev/null`.
    ReadWriteFile,
    /// A private directory: everything but programs, devices, sockets and pipes.
    OwnTree,
}

/// One opened path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The kernel enforces less than it was asked for.
    #[error("landlock: the rules are not fully enforced")]
    Partial,
}

/// Restricts the calling thread for good.
pub(crate) fn restrict_files(kernel_abi: u32, rules: &[FileRule]) -> Result<(), FilesError> {
    let abi = ABI::from(i32::try_from(kernel_abi).unwrap_or(i32::MAX));
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?;
    if kernel_abi >= TCP_ABI {
        ruleset = ruleset.handle_access(AccessNet::from_all(abi))?;
    }
    if kernel_abi >= SCOPE_ABI {
        ruleset = ruleset.scope(Scope::from_all(abi))?;
    }
    let mut created = ruleset.create()?;
    for rule in rules {
        created = created.add_rule(PathBeneath::new(PathFd::new(&rule.path)?, rights(rule.access, abi)))?;
    }
    let status = created.restrict_self()?;
    if status.ruleset == RulesetStatus::FullyEnforced && status.no_new_privs {
        Ok(())
    } else {
        Err(FilesError::Partial)
    }
}

fn rights(access: Access, abi: ABI) -> BitFlags<AccessFs> {
    match access {
        Access::ReadTree => AccessFs::ReadFile | AccessFs::ReadDir,
        Access::ReadFile => AccessFs::ReadFile.into(),
        Access::ExecuteFile => AccessFs::ReadFile | AccessFs::Execute,
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
