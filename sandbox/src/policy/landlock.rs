//! The landlock rules: every right that the kernel knows is handled, and only the listed paths are allowed.
//!
//! There is no best-effort mode: if the kernel cannot enforce what its ABI promises, nothing runs.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, Scope,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::sys;

/// The first ABI that mediates moves between directories. Below it, such moves fail.
const REFER_ABI: u32 = 2;
/// The first ABI that mediates TCP.
pub(crate) const TCP_ABI: u32 = 4;
/// The first ABI that scopes abstract unix sockets and signals.
pub(crate) const SCOPE_ABI: u32 = 6;

/// The first ABI that can log denials, and does unless it is told not to.
const LOG_ABI: u32 = 7;
/// `LANDLOCK_RESTRICT_SELF_LOG_SAME_EXEC_OFF`. After an exec nothing is logged anyway.
const LOG_SAME_EXEC_OFF: u32 = 1;

/// How a path may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PathAccess {
    /// Lists names, reads nothing.
    ListTree,
    /// A library directory: reads files and lists names.
    ReadTree,
    /// Reads one file.
    ReadFile,
    /// Reads and executes one file (the interpreter and its loader, before the filters forbid exec).
    ExecuteFile,
    /// A system directory: reads files, lists names, executes programs.
    ExecuteTree,
    /// Reads and writes one file (`/dev/null`).
    ReadWriteFile,
    /// Reads and writes one regular file.
    WriteFile,
    /// A private directory: everything but programs, devices, sockets and pipes.
    OwnTree,
    /// The same, and its programs can be executed.
    OwnProgramTree,
}

impl PathAccess {
    /// Whether the guest may write below the path.
    pub(crate) fn is_own(self) -> bool {
        matches!(self, Self::OwnTree | Self::OwnProgramTree)
    }
}

/// One allowed path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct PathRule {
    pub path: PathBuf,
    pub access: PathAccess,
}

/// Landlock cannot be applied.
#[derive(Debug, Error)]
pub(crate) enum LandlockError {
    #[error("landlock: {0}")]
    Ruleset(#[from] RulesetError),
    #[error("landlock: {0}")]
    Path(#[from] landlock::PathFdError),
    #[error("landlock: the rules cannot be enforced")]
    Partial,
    #[error("landlock: cannot restrict the process: {0}")]
    Restrict(io::Error),
}

/// Which rights a ruleset handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RulesetKind {
    /// Every right that the kernel knows.
    Full,
    /// The rights that no child of a zygote may ever have: programs, devices, sockets, TCP, signals. The
    /// rulesets of the children decide on files.
    Ceiling,
    /// Signals and abstract sockets alone: separates a command from its supervisor inside an outer domain.
    /// The outer domain decides on files, moves included.
    Signals,
}

/// The use of TCP in a domain, where the kernel mediates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TcpAccess<'p> {
    /// None.
    Closed,
    /// All, but no connection to these ports of any address.
    AllBut(&'p [u16]),
}

/// The parameters of a ruleset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LandlockDomain<'p> {
    /// The ABI of the kernel.
    pub abi: u32,
    pub kind: RulesetKind,
    /// Has no effect on [`RulesetKind::Signals`].
    pub tcp: TcpAccess<'p>,
}

impl LandlockDomain<'_> {
    fn handled(self, abi: ABI) -> BitFlags<AccessFs> {
        let never = AccessFs::Execute
            | AccessFs::MakeChar
            | AccessFs::MakeBlock
            | AccessFs::MakeSock
            | AccessFs::MakeFifo
            | AccessFs::IoctlDev;
        // A domain that does not handle moves denies them. Two kinds handle them in order to allow them.
        let handled = match self.kind {
            RulesetKind::Full => return AccessFs::from_all(abi),
            RulesetKind::Ceiling => never | AccessFs::Refer,
            RulesetKind::Signals => AccessFs::Refer.into(),
        };
        handled & AccessFs::from_all(abi)
    }

    /// The TCP rights that the domain denies where no rule allows them.
    fn handled_tcp(self, abi: ABI) -> Result<BitFlags<AccessNet>, LandlockError> {
        match self.tcp {
            _ if self.kind == RulesetKind::Signals => Ok(BitFlags::EMPTY),
            TcpAccess::AllBut([]) => Ok(BitFlags::EMPTY),
            // Ports that must be closed and stay open are no policy; filters deny TCP of the other kind.
            TcpAccess::AllBut(_) if self.abi < TCP_ABI => Err(LandlockError::Partial),
            TcpAccess::AllBut(_) => Ok(AccessNet::ConnectTcp.into()),
            TcpAccess::Closed if self.abi < TCP_ABI => Ok(BitFlags::EMPTY),
            TcpAccess::Closed => Ok(AccessNet::from_all(abi)),
        }
    }
}

/// Creates a ruleset. A process restricts itself with the descriptor.
pub(crate) fn build_ruleset(
    domain: LandlockDomain<'_>,
    rules: &[PathRule],
) -> Result<OwnedFd, LandlockError> {
    let abi = ABI::from(i32::try_from(domain.abi).unwrap_or(i32::MAX));
    let handled = domain.handled(abi);
    let mut ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    if !handled.is_empty() {
        ruleset = ruleset.handle_access(handled)?;
    }
    let tcp = domain.handled_tcp(abi)?;
    if !tcp.is_empty() {
        ruleset = ruleset.handle_access(tcp)?;
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
    if let TcpAccess::AllBut(closed) = domain.tcp
        && !tcp.is_empty()
    {
        // The kernel knows no rule that denies, and none for a range.
        for port in (0..=u16::MAX).filter(|port| !closed.contains(port)) {
            created = created.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
        }
    }
    if domain.kind != RulesetKind::Full && domain.abi >= REFER_ABI {
        created = created.add_rule(PathBeneath::new(PathFd::new("/")?, AccessFs::Refer))?;
    }
    Option::<OwnedFd>::from(created).ok_or(LandlockError::Partial)
}

/// Restricts the calling thread permanently. No-new-privs must be set.
pub(crate) fn restrict(domain: LandlockDomain<'_>, rules: &[PathRule]) -> Result<(), LandlockError> {
    #[cfg(feature = "ablation")]
    if crate::ablation::lacks_landlock() {
        return Ok(());
    }
    let ruleset = build_ruleset(domain, rules)?;
    sys::restrict_self(ruleset.as_fd(), restriction_flags(domain.abi)).map_err(LandlockError::Restrict)
}

/// The flags of that call: a guest is denied 100,000 opens a second, which would flood the audit log.
pub(crate) fn restriction_flags(abi: u32) -> u32 {
    if abi >= LOG_ABI { LOG_SAME_EXEC_OFF } else { 0 }
}

/// The number of the call that enforces a ruleset. The children of a zygote make the call themselves.
pub(crate) fn restriction_number() -> i64 {
    #[cfg(feature = "ablation")]
    if crate::ablation::lacks_landlock() {
        return crate::ablation::IDLE_CALL;
    }
    libc::SYS_landlock_restrict_self
}

fn rights(access: PathAccess, abi: ABI) -> BitFlags<AccessFs> {
    match access {
        PathAccess::ListTree => AccessFs::ReadDir.into(),
        PathAccess::ReadTree => AccessFs::ReadFile | AccessFs::ReadDir,
        PathAccess::ReadFile => AccessFs::ReadFile.into(),
        PathAccess::ExecuteFile => AccessFs::ReadFile | AccessFs::Execute,
        PathAccess::ExecuteTree => AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::Execute,
        PathAccess::ReadWriteFile => AccessFs::ReadFile | AccessFs::WriteFile,
        PathAccess::WriteFile => {
            (AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate) & AccessFs::from_all(abi)
        }
        PathAccess::OwnProgramTree => rights(PathAccess::OwnTree, abi) | AccessFs::Execute,
        PathAccess::OwnTree => {
            let all_rights = AccessFs::ReadFile
                | AccessFs::ReadDir
                | AccessFs::WriteFile
                | AccessFs::RemoveFile
                | AccessFs::RemoveDir
                | AccessFs::MakeReg
                | AccessFs::MakeDir
                | AccessFs::MakeSym
                | AccessFs::Refer
                | AccessFs::Truncate;
            all_rights & AccessFs::from_all(abi)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_own_program_tree_adds_execution_and_nothing_else() {
        for abi in [ABI::V1, ABI::V7] {
            let (own_tree, programs) =
                (rights(PathAccess::OwnTree, abi), rights(PathAccess::OwnProgramTree, abi));
            assert_eq!(programs, own_tree | AccessFs::Execute);
        }
    }

    #[test]
    fn an_own_tree_allows_no_execution_devices_or_sockets() {
        let own_tree = rights(PathAccess::OwnTree, ABI::V7);
        for right in [
            AccessFs::Execute,
            AccessFs::MakeChar,
            AccessFs::MakeBlock,
            AccessFs::MakeSock,
            AccessFs::MakeFifo,
        ] {
            assert!(!own_tree.contains(right), "{right:?}");
        }
    }

    #[test]
    fn ports_that_the_kernel_cannot_close_are_an_error() {
        let domain = |abi, tcp| LandlockDomain { abi, kind: RulesetKind::Full, tcp };
        let handled = |abi, tcp| domain(abi, tcp).handled_tcp(ABI::from(i32::try_from(abi).unwrap()));
        assert!(handled(TCP_ABI - 1, TcpAccess::AllBut(&[80])).is_err());
        assert_eq!(handled(TCP_ABI, TcpAccess::AllBut(&[80])).unwrap(), AccessNet::ConnectTcp);
        assert!(handled(TCP_ABI, TcpAccess::AllBut(&[])).unwrap().is_empty());
        assert!(handled(TCP_ABI, TcpAccess::Closed).unwrap().contains(AccessNet::BindTcp));
    }

    #[test]
    fn p8_denials_are_not_logged_where_the_kernel_can_log_them() {
        assert_eq!((restriction_flags(LOG_ABI - 1), restriction_flags(LOG_ABI)), (0, LOG_SAME_EXEC_OFF));
    }

    #[test]
    fn new_rights_are_omitted_on_old_kernels() {
        assert!(!rights(PathAccess::OwnTree, ABI::V1).contains(AccessFs::Truncate));
    }
}
