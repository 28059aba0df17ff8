//! What to do when the kernel has no descriptor, epoll watch or memory left for a new connection.

/// Makes room in the kernel's tables and its memory.
pub trait KernelTables: Send + Sync {
    /// Ends the command that holds most of what is short, unless none is large. May block for a second.
    fn end_largest_command(&self, short: KernelShortage);
}

/// What the kernel has run out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelShortage {
    /// Descriptors or epoll watches.
    Tables,
    /// Memory.
    Memory,
}
