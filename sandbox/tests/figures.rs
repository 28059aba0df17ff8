//! A guest's claim about its memory counts only if the kernel's figures agree. The figures are the guest's
//! own.

use nanoclaw_sandbox::{Level, RunStatus};

use crate::support::{self, javascript, python};

#[test]
fn memory_of_the_server_does_not_count_for_the_guest() {
    let _turn = support::exclusive();
    let ballast = vec![1_u8; 400 << 20];
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    for (program, most_kb) in [
        (python(Level::Strict, "print(1)"), 60_000),
        (python(Level::Lenient, "print(1)"), 60_000),
        (javascript(Level::Strict, "print(1)"), 60_000),
    ] {
        let record = sandbox.run(&program, &|| false);
        assert_eq!(record.stdout, "1\n", "{record:#?}");
        assert!((1_000..most_kb).contains(&record.max_rss_kb), "{} KB", record.max_rss_kb);
    }
    assert!(ballast.iter().step_by(4096).all(|byte| *byte == 1));
}

#[test]
fn an_unconfirmed_memory_error_is_a_plain_error() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    for code in [
        "import os\nos.write(4, b'{\"out_of_memory\":true}\\n'); os._exit(1)",
        "raise MemoryError",
        "import os\nos.write(4, b'{\"out_of_memory\":true}\\n'); raise MemoryError",
        "x = bytearray(1 << 40)",
        "import os\nos._exit(9)",
    ] {
        let record = sandbox.run(&python(Level::Lenient, code), &|| false);
        assert_eq!((record.status, record.limit), (RunStatus::Error, None), "{code}");
    }
    let record = sandbox
        .run(&python(Level::Strict, "x = []\nwhile True: x.append('y' * 4096 + str(len(x)))"), &|| false);
    assert_eq!(record.status, RunStatus::Oom, "{record:#?}");
}

#[test]
fn a_handled_allocation_failure_in_javascript_is_not_out_of_memory() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    let handled_error = "try { 'x'.repeat(2 ** 29) } catch (e) { console.log(e.name + ': ' + e.message) }\n";
    for (rest, status) in [
        (
            "const start = Date.now(); while (Date.now() - start < 3); throw Error('out of memory')",
            RunStatus::Error,
        ),
        ("throw { name: 'InternalError', message: 'other' }", RunStatus::Error),
        ("throw null.x", RunStatus::Error),
        ("1", RunStatus::Ok),
    ] {
        let record = sandbox.run(&javascript(Level::Strict, &format!("{handled_error}{rest}")), &|| false);
        assert_eq!(record.status, status, "{rest}: {record:#?}");
        assert_eq!(record.stdout, "InternalError: out of memory\n");
    }
    for code in [
        "'x'.repeat(2 ** 29)",
        "const a = []; for (;;) a.push(new ArrayBuffer(1 << 20))",
        "const o = {}; for (let i = 0; ; i++) o['k' + i] = { i }",
        "try { 'x'.repeat(2 ** 29) } catch (e) { throw e }",
        "Promise.resolve().then(() => 'x'.repeat(2 ** 29))",
        "setTimeout(() => 'x'.repeat(2 ** 29), 1)",
        "(async () => 'x'.repeat(2 ** 29))()",
    ] {
        let record = sandbox.run(&javascript(Level::Strict, code), &|| false);
        assert_eq!(
            (record.status, record.limit.as_deref()),
            (RunStatus::Oom, Some("address_space_bytes")),
            "{code}: {record:#?}"
        );
    }
}

#[test]
fn the_javascript_deadline_ends_every_kind_of_loop() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    for code in [
        "for (;;);",
        "/(a+)+$/.test('a'.repeat(40) + 'b')",
        "Promise.resolve().then(() => { for (;;); })",
        "const f = async () => { for (;;) await null; }; f()",
        "setInterval(() => {}, 1)",
        "setTimeout(() => {}, 1e9)",
        "const again = () => setTimeout(again, 0); again()",
        "try { for (;;); } catch { for (;;); } finally { for (;;); }",
        "await new Promise(() => setTimeout(() => {}, 1e6))",
    ] {
        let mut program = javascript(Level::Strict, code);
        program.timeout_ms = Some(400);
        let record = sandbox.run(&program, &|| false);
        assert_eq!(
            (record.status, record.limit.as_deref()),
            (RunStatus::Timeout, Some("timeout_ms")),
            "{code}: {record:#?}"
        );
    }
    let record = sandbox.run(
        &javascript(Level::Strict, "console.log(1); console.error(2); console.warn(3); print(4)"),
        &|| false,
    );
    assert_eq!((&*record.stdout, &*record.stderr), ("1\n4\n", "2\n3\n"));
}
