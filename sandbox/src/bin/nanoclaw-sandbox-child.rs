//! The smallest binary that can be a sandbox child: what this crate's own tests start.

fn main() {
    nanoclaw_sandbox::child_hook();
}
