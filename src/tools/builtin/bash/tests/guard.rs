//! Command lines that the guard refuses by its built-in rules. `harmless` has those that it lets pass.

use crate::tools::builtin::bash::guard::check_command;
use crate::tools::builtin::bash::path::ShellPath;
use crate::tools::builtin::bash::{BashOptions, BashRules};
use std::path::Path;

pub(super) fn rules(deny: &[&str], allow: &[&str]) -> BashRules {
    let owned = |patterns: &[&str]| patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
    let options =
        BashOptions { deny_patterns: owned(deny), allow_patterns: owned(allow), allowed_env: Vec::new() };
    BashRules::new(&options, |_| None).expect("good patterns")
}

pub(super) fn verdict(command: &str, rules: &BashRules) -> Result<(), String> {
    check_command(command, &ShellPath::project(None), rules).map_err(|refusal| refusal.to_string())
}

pub(super) fn passes(command: &str) {
    assert_eq!(verdict(command, &rules(&[], &[])), Ok(()), "{command}");
}

fn stops(command: &str, reason: &str) {
    let reported = verdict(command, &rules(&[], &[])).expect_err(command);
    assert!(
        reported.starts_with("Command blocked, nothing was run: `") && reported.contains(reason),
        "{command}: {reported}"
    );
}

const ROOT: &str = "the root directory";
const HOME: &str = "the home directory";
const ABOVE: &str = "above the job's directory";
const SYSTEM: &str = "the system directory";
const USER: &str = "change the user";
const DISKS: &str = "disks and their file systems";
const DEVICE: &str = "the device /dev/";
const POWER: &str = "stop or restart the machine";
const BOMB: &str = "a fork bomb";

/// Why, and what.
const STOPPED: &[(&str, &[&str])] = &[
    (
        ROOT,
        &[
            "rm -r -f /",
            "rm -fr /",
            "rm -Rf /",
            "rm --recursive --force /",
            "rm --rec /",
            "rm -rf -- /",
            "rm / -rf",
            "rm -rf /*",
            "rm -rf //",
            "rm -rf /./",
            "rm -rf /tmp/..",
            "rm -rf /tmp/../*",
            "rm -f /*",
            "rm -rf \"/\"",
            "rm -rf '/'",
            "r''m -r\"f\" /",
            r"\rm -rf /",
            "/bin/rm -rf /",
            "X=1 Y=2 rm -rf /",
            "rm -rf build /",
            "rm -rf --no-preserve-root /",
            "  rm -rf /",
            "RM -rf /",
            "rm -rf /.*",
            "rm -rf /{*,.*}",
            "rm \\\n  -rf \\\n  /",
            "2>/dev/null rm -rf /",
            "cd / && rm -rf *",
            "cd /tmp; cd ..; rm -rf ./*",
            "chmod -R 777 /",
            "chown -R nobody /",
            "find / -delete",
            "find / -name x -exec rm {} +",
        ],
    ),
    (
        HOME,
        &[
            "rm -rf ~",
            "rm -rf ~/",
            "rm -rf ~/*",
            "rm -rf $HOME",
            "rm -rf \"$HOME\"",
            "rm -rf ${HOME}/*",
            "rm -rf ~root",
            "cd && rm -rf .",
        ],
    ),
    (
        ABOVE,
        &[
            "rm -rf ..",
            "rm -rf ../x",
            "rm -rf a/../../x",
            "rm -f ../../notes",
            "cd a && rm -rf ../../x",
            "rm -rf ~/..",
        ],
    ),
    (
        SYSTEM,
        &[
            "rm -rf /etc",
            "rm -rf /usr/lib/x",
            "rm -f /etc/passwd",
            "rm -rf /home",
            "rm -rf /home/u/*",
            "rm -rf /var/lib",
            "rm -rf /b*",
            "rm -rf /{bin,usr}",
            "cd /etc; rm -rf ./ssh",
            "chmod -R a+w /etc",
        ],
    ),
    (USER, &["/usr/bin/sudo ls", "su -c 'ls'", "doas ls", "pkexec ls", "\"sudo\" ls", "su\\do ls", "sudo"]),
    (
        DISKS,
        &[
            "mkfs -t ext4 x",
            "mke2fs x",
            "wipefs -a x",
            "/sbin/fdisk -l",
            "parted x",
            "diskpart",
            "format C: /q",
            "ls;format",
            "ls | format",
            "mkswap x",
        ],
    ),
    (
        DEVICE,
        &[
            "dd if=x of=/dev/nvme0n1 bs=1M",
            "dd of=\"/dev/sda\"",
            "echo x > /dev/sda",
            "echo x >/dev/sda1",
            "echo x >> /dev/vda",
            "echo x >| /dev/sda",
            "ls &> /dev/sdb",
            "> /dev/sda",
            "cat x 1>/dev/mmcblk0",
            "echo x >& /dev/sda",
            "tee /dev/sda < x",
            "cp x /dev/sda",
            "{ echo x; } > /dev/sda",
            "for f in a; do echo; done > /dev/sda",
            "cat x > /dev//sda",
            "cat x > /dev/../dev/sda",
            "shred -n 1 /dev/sda",
        ],
    ),
    (
        POWER,
        &[
            "reboot",
            "/sbin/poweroff",
            "halt -p",
            "init 0",
            "init 6",
            "telinit 6",
            "systemctl poweroff",
            "systemctl -i reboot",
            "loginctl poweroff",
            "SHUTDOWN now",
        ],
    ),
    (
        BOMB,
        &[
            "bomb() { bomb | bomb & }; bomb",
            ":(){ :|: & };:",
            ":(){:|:&};:",
            "function f { f | f & }; f",
            "f ()\n{\n f |\n f &\n}\nf",
            "f() ( f | f & ); f",
            "b(){ b & b & };b",
            "b(){ echo x; b & b; }; b",
            "b(){ (b|b) & }; b",
        ],
    ),
    ("deeply", &["$($($($($($($($($($($($($($($($($($(ls))))))))))))))))))"]),
    ("a whole tree", &["del /f /q x", "rmdir /s x"]),
];

/// All of them start `sudo`.
const LOOKED_INTO: &[&str] = &[
    "sh -c 'sudo ls'",
    "bash -c \"sudo ls\"",
    "/bin/bash -lc 'sudo ls'",
    "bash --norc -o pipefail -xc 'ls; sudo ls'",
    "bash -c 'bash -c \"sudo ls\"'",
    "eval sudo ls",
    "eval 'ls; sudo ls'",
    "env sudo ls",
    "env -i X=1 sudo ls",
    "env -u X sudo ls",
    "env -S 'sudo ls'",
    "nohup sudo ls &",
    "timeout 5 sudo ls",
    "timeout -k 1 --signal KILL 5 sudo ls",
    "timeout -s9 5s sudo ls",
    "nice -n 5 sudo ls",
    "nice -5 sudo ls",
    "ls | xargs sudo",
    "ls | xargs -0 -n 1 -I {} sudo {}",
    "exec sudo ls",
    "exec -a x sudo ls",
    "command sudo ls",
    "command -p sudo ls",
    "builtin command sudo",
    "time sudo ls",
    "time -p sudo ls",
    "setsid -w sudo ls",
    "stdbuf -oL sudo ls",
    "busybox sudo",
    "nohup nice timeout 5 sudo ls",
    "find . -exec sudo rm {} ;",
    "trap 'sudo ls' EXIT",
    "flock x sudo ls",
    "flock x -c 'sudo ls'",
    "echo $(sudo ls)",
    "echo \"$(sudo ls)\"",
    "echo `sudo ls`",
    "echo \"`sudo ls`\"",
    "echo `echo \\`sudo ls\\``",
    "echo $(echo $(sudo ls))",
    "cat <(sudo ls)",
    "tee >(sudo ls)",
    "X=$(sudo ls)",
    "X=($(sudo ls))",
    "echo ${X:-$(sudo ls)}",
    "echo \"${X:-`sudo ls`}\"",
    "echo $(( $(sudo ls) + 1 ))",
    "(( x = $(sudo ls) ))",
    "(( echo \"))\" ; sudo ls ) )",
    "echo ${x:-'}'}; sudo ls",
    "echo \"${x:-'}\"; sudo ls",
    "echo \"${x#'}'}\"; sudo ls",
    "sudo$x ls",
    "$X/bin/sudo ls",
    "for x do sudo ls; done",
    "for ((;;)) { sudo ls; }",
    "for x in do; do sudo ls; done",
    "su\\\ndo ls",
    "[[ -n $(sudo ls) ]]",
    "(sudo ls)",
    "( ( sudo ls ) )",
    "((sudo ls); ls)",
    "{ sudo ls; }",
    "if true; then sudo ls; fi",
    "if sudo ls; then :; fi",
    "while sudo ls; do :; done",
    "for x in a b; do sudo ls; done",
    "for x in $(sudo ls); do :; done",
    "for ((i=0; i<2; i++)); do sudo ls; done",
    "select x in a; do sudo ls; done",
    "case x in a) ls;; *) sudo ls;; esac",
    "case $(sudo ls) in x) ;; esac",
    "case x in a|b) sudo ls; esac",
    "case x in (a) case y in z) ls;; esac;; (b) sudo ls;; esac",
    "case x in esac; sudo ls",
    "case x in a) ls;; esac||sudo ls",
    "f() { sudo ls; }",
    "function f { sudo ls; }; f",
    "f() ( sudo ls )",
    "! sudo ls",
    "coproc sudo ls",
    "true && ! sudo ls",
    "bash <<EOF\nsudo ls\nEOF",
    "bash -s <<'EOF'\nsudo ls\nEOF",
    "sh <<-EOF\n\tsudo ls\n\tEOF",
    "sh <<< 'sudo ls'",
    "cat <<EOF | sh\nsudo ls\nEOF",
    "cat <<EOF\n$(sudo ls)\nEOF",
    "cat <<A <<B\nx\nA\n$(sudo ls)\nB",
    "echo 'sudo ls' | sh",
    "echo -e 'ls\\nsudo ls' | bash -x",
    "printf '%s\\n' 'sudo ls' | sh",
    "printf 'sudo ls\\n' |\n bash",
    "source /dev/stdin <<< 'sudo ls'",
    "cat <<EOF\nx\nEOF\nsudo ls",
    "cat <<EOF; sudo ls\nx\nEOF",
    "echo $((x<<2))\nsudo ls",
    "((x<<2))\nsudo ls",
    "[[ a < b && c ]] && sudo ls",
    "ls # don't\nsudo ls",
    "for x in a # don't\ndo sudo ls; done",
    "[[ a ]] # don't\nsudo ls",
    "echo a#b; sudo ls",
    "echo 'x' \"y\" \\' ; sudo ls",
    "ls) ; sudo ls",
    "} ; sudo ls",
    "cat <<'EOF'\r\nx\r\nEOF\r\nsudo ls",
];

#[test]
fn the_nine_documented_commands_are_judged_as_promised() {
    passes("echo rm x");
    passes(r#"git commit -m "rm x""#);
    passes("curl 'https://example.org/?format=1'");
    stops("rm -rf /", ROOT);
    stops("sudo ls", USER);
    stops("mkfs.ext4 /dev/sda1", DISKS);
    stops("dd if=/dev/zero of=/dev/sda", DEVICE);
    stops("shutdown -h now", POWER);
    stops(":(){ :|:& };:", BOMB);
}

#[test]
fn dangerous_commands_are_refused_with_their_reason() {
    for (reason, commands) in STOPPED {
        for command in *commands {
            stops(command, reason);
        }
    }
}

#[test]
fn commands_that_run_other_commands_are_inspected() {
    for command in LOOKED_INTO {
        stops(command, USER);
    }
}

#[test]
fn every_operator_separates_segments() {
    for operator in ["&&", "||", ";", "|", "|&", "&", "\n", ";;", " & \n", "\n\n"] {
        for (before, after) in [("ls", "x"), ("ls -la 'a b'", "cat"), ("echo \"a;b\"", "true")] {
            stops(&format!("{before}{operator}sudo x"), USER);
            stops(&format!("sudo x{operator}{after}"), USER);
            stops(&format!("{before} {operator} rm -rf / {operator} {after}"), ROOT);
        }
    }
}

#[test]
fn relative_paths_are_resolved_from_the_working_directory() {
    let from = |below: &str, command: &str| {
        check_command(command, &ShellPath::project(Some(Path::new(below))), &rules(&[], &[])).is_ok()
    };
    assert!(
        from("a/b", "rm -rf ../c ../../d") && !from("a/b", "rm -rf ../../../e") && !from("a", "rm -rf ../..")
    );
}
