# Sourced by the scripts of the peers. Each script installs its peer under target/peers from the configured
# package registries. On stdout it prints `version NAME VERSION`, then one of these lines:
#   value NUMBER [CORES]  the measured value, and the peer's processor time divided by time
#   path PROGRAM          the path of a program
#   serving               printed just before the script executes the peer
#   skipped REASON        with exit code 3
# All other output goes to stderr.
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
peers="$PWD/target/peers"
mkdir -p "$peers"

skip() { echo "skipped $*"; exit 3; }

version() { echo "version $*"; }

# venv NAME PACKAGE…: creates a virtual environment with the packages, once. A package may have a version
# (==1.2.3); else it is the newest one.
venv() {
  local root="$peers/$1"
  shift
  [ "$(cat "$root/installed" 2>/dev/null)" = "$*" ] && return
  command -v python3 >/dev/null || skip "python3 is not installed"
  echo "installing $* into $root" >&2
  rm -rf "${root:?}"
  python3 -m venv "$root" >&2 || skip "python3 -m venv does not work here (apt-get install python3-venv)"
  timeout 900 "$root/bin/pip" install --quiet "$@" >&2 || skip "pip cannot install $*"
  echo "$*" >"$root/installed"
}

# packages NAME PACKAGE…: installs npm packages into target/peers/NAME/node_modules, once.
packages() {
  local root="$peers/$1"
  shift
  [ "$(cat "$root/installed" 2>/dev/null)" = "$*" ] && return
  command -v node >/dev/null || skip "node is not installed"
  command -v npm >/dev/null || skip "npm is not installed"
  echo "installing $* into $root" >&2
  rm -rf "${root:?}"
  timeout 900 npm install --silent --no-audit --no-fund --prefix "$root" "$@" >&2 || skip "npm cannot install $*"
  echo "$*" >"$root/installed"
}

# free_port: prints a port of the loopback interface that no program uses.
free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# unpack PROGRAM PACKAGE…: unpacks packages of the distribution under target/peers, not into the system.
unpack() {
  local program=$1 root="$peers/unpacked" package
  shift
  [ -x "$root/$program" ] && return
  echo "fetching $* into target/peers" >&2
  mkdir -p "$root"
  (cd "$root" && timeout 300 apt-get download "$@" >&2) || return 1
  for package in "$root"/*.deb; do dpkg-deb -x "$package" "$root" >&2 || return 1; done
  rm -f "$root"/*.deb
  [ -x "$root/$program" ]
}
