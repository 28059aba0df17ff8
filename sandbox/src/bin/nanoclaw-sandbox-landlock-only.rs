//! A sandbox child without system call filters: the ablation tests start it to see that it does not hold.

fn main() {
    nanoclaw_sandbox::ablation::live_without(nanoclaw_sandbox::ablation::KernelLayer::Seccomp);
    nanoclaw_sandbox::child_hook();
}
