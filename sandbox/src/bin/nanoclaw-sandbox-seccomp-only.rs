//! A sandbox child without landlock: the ablation tests start it to see that it does not hold.

fn main() {
    nanoclaw_sandbox::ablation::live_without(nanoclaw_sandbox::ablation::KernelLayer::Landlock);
    nanoclaw_sandbox::child_hook();
}
