# Sourced by the other scripts. need PROGRAM HINT: ends the script with the hint if the program is missing.
need() {
  command -v "$1" >/dev/null 2>&1 && return
  printf 'missing: %s\nhint: %s\n' "$1" "$2" >&2
  exit 1
}

# install_wheel NAME==VERSION HASH DIR: installs a program that a Python package contains into DIR/bin. Fails
# without pip, and where there is no such package for this machine.
install_wheel() {
  mkdir -p "$3"
  echo "$1 --hash=$2" >"$3.txt"
  python3 -m pip --version >/dev/null 2>&1 || { echo "pip is not installed" >&2; return 1; }
  PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes --upgrade \
    --target "$3" -r "$3.txt"
}

need cargo "install Rust 1.90 or later (rustup.rs, or your distribution's rustup package), then open a new shell"
need cc "install a C compiler: apt-get install gcc libc6-dev"
need python3 "install Python 3.9 or later: apt-get install python3"
