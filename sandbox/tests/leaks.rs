//! Thousands of runs leave no descriptor, process, directory or memory behind, neither in the server nor in
//! its broker. An expired zygote is replaced meanwhile without a failed run. `NANOCLAW_TEST_RUNS` sets the
//! number of runs.

use nanoclaw_sandbox::{Language, Level, Program, RunStatus, Sandbox};

use crate::support;

/// Runs before the first measurement.
const WARM_UP: usize = 100;
/// Memory that allocators may keep for themselves over thousands of runs.
const SLACK_KB: u64 = 2_048;

fn runs() -> usize {
    #[expect(clippy::disallowed_methods, reason = "the test's own size")]
    let configured = std::env::var("NANOCLAW_TEST_RUNS").ok();
    configured.and_then(|number| number.parse().ok()).unwrap_or(1_000)
}

/// The resources of one process that can leak.
#[derive(Debug)]
struct Resources {
    descriptors: usize,
    resident_kb: u64,
}

fn resources(pid: u32) -> Resources {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    Resources {
        descriptors: std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(),
        resident_kb: resident.trim().trim_end_matches(" kB").parse().unwrap(),
    }
}

fn run_many(sandbox: &Sandbox, count: usize) {
    let programs = (0..count).flat_map(|number| {
        let code = format!("print({number} * 2)");
        let mut all = vec![
            support::python(Level::Strict, &code),
            support::javascript(Level::Standard, &code.replace("print", "console.log")),
        ];
        if number % 5 == 0 {
            let command = format!("echo x >f; (true &); echo $(({number} * 2))");
            all.push(Program::new(Language::Bash, Level::Shell, command));
        }
        all.into_iter().map(move |program| (number, program))
    });
    support::in_parallel(programs.collect(), 4, |(number, program)| {
        let record = sandbox.run(&program, &|| false);
        assert_eq!(
            (record.status, record.stdout.as_str()),
            (RunStatus::Ok, format!("{}\n", number * 2).as_str()),
            "{record:#?}"
        );
    });
}

#[test]
fn thousands_of_runs_leak_nothing() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    run_many(&sandbox, WARM_UP);
    support::assert_nothing_left(scratch.path());
    // Each spare child has a socket: there must be as many as at the end. A newly forked child still has the
    // name of its parent.
    let has = |name: &str, count: usize| support::processes_named(name).len() == count;
    let is_settled = || has("nanoclaw-broker", 1) && has("nanoclaw-spare", 2) && has("nanoclaw-ready", 2);
    support::eventually("two spare children of each kind are ready", is_settled);
    let [broker] = support::processes_named("nanoclaw-broker")[..] else { panic!("not one broker") };
    let first_zygotes = support::processes_named("nanoclaw-zygote");
    let everyone = [std::process::id(), broker];
    let before = everyone.map(resources);
    let runs = runs();
    // In batches: the allocator would keep the memory of a long list of programs.
    for _ in 0..runs.div_ceil(WARM_UP) {
        run_many(&sandbox, WARM_UP);
    }
    // A new zygote has another name until it is warm. Every process that stays is a leak.
    support::eventually("only broker, zygotes and spare children run", || support::guests().is_empty());
    support::assert_nothing_left(scratch.path());
    // The broker reports an exit before it closes the socket.
    let descriptors = |pid: u32| resources(pid).descriptors;
    support::eventually("two spare children of each kind are ready", is_settled);
    support::eventually("no descriptor leaked", || {
        before.iter().zip(everyone).all(|(before, pid)| before.descriptors == descriptors(pid))
    });
    let after = everyone.map(resources);
    println!("before {before:?}\nafter {runs} {after:?}");
    for (before, after) in before.iter().zip(&after) {
        assert!(after.resident_kb <= before.resident_kb + SLACK_KB, "{before:?} -> {after:?}");
    }
    assert_eq!(support::processes_named("nanoclaw-broker"), [broker], "the broker was replaced");
    if runs >= 1_000 {
        let zygotes = support::processes_named("nanoclaw-zygote");
        assert_eq!(zygotes.len(), first_zygotes.len(), "an expired zygote stayed");
        assert!(zygotes != first_zygotes, "after a thousand runs the zygotes are replaced");
    }
}
