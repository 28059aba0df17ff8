//! The smallest binary that can become the broker. This crate's own tests start it.

fn main() {
    nanoclaw_sandbox::child_hook();
}
