# Sourced by the other scripts. need PROGRAM HINT: ends the script with the hint if the program is missing.
need() {
  command -v "$1" >/dev/null 2>&1 && return
  printf 'missing: %s\nhint: %s\n' "$1" "$2" >&2
  exit 1
}
need cargo "install Rust 1.90 or later (rustup.rs, or your distribution's rustup package), then open a new shell"
need cc "install a C compiler: apt-get install gcc libc6-dev"
need python3 "install Python 3.9 or later: apt-get install python3"
