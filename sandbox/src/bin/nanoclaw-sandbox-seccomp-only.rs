//! A broker without landlock. The ablation tests show that it does not hold.

fn main() {
    nanoclaw_sandbox::ablation::live_without(nanoclaw_sandbox::ablation::KernelLayer::Landlock);
    nanoclaw_sandbox::child_hook();
}
