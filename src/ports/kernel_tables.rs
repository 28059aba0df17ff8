//! What to do when the kernel has no descriptor, epoll watch or memory left for a new connection.

/// Makes room in the kernel's tables.
pub trait KernelTables: Send + Sync {
    /// Ends the command that takes most from them, unless none is large. May block for a second.
    fn end_largest_command(&self);
}
