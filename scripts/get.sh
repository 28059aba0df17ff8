#!/bin/sh
# Installs NanoClaw from a release page, or removes it. It checks the archive against SHA256SUMS first.
#   get.sh [OPTIONS] FROM     FROM: a directory or the https:// address that holds SHA256SUMS and the archive
#                             [default: $GET_NANOCLAW_FROM]
#     --prefix DIR            installs below DIR [default: /usr/local for root, else ~/.local]
#     --version VERSION       this version, if FROM holds several
#     --uninstall             removes what this script installed below the prefix; data stays
# SHA256SUMS finds damaged and incomplete downloads. It comes from the same place as the archive, so it does
# not replace trust in that place.
set -eu
umask 022

fail() {
  printf 'get.sh: %s\n' "$1" >&2
  [ -z "${2:-}" ] || printf 'hint: %s\n' "$2" >&2
  exit 1
}

usage() {
  cat <<'END'
usage: get.sh [--prefix DIR] [--version VERSION] FROM
       get.sh [--prefix DIR] --uninstall
FROM is a directory or the https:// address that holds SHA256SUMS and the archive [default: $GET_NANOCLAW_FROM].
END
}

has() { command -v "$1" >/dev/null 2>&1; }

# fetch NAME FILE: copies a file of the release. A download that ends early is an error of the client.
fetch() {
  case $from in
    http://* | https://*)
      if has curl; then curl -fsSL --connect-timeout 20 --proto '=http,https' -o "$2" "$from/$1"
      elif has wget; then wget -q -t 2 -O "$2" "$from/$1"
      else fail "neither curl nor wget is installed" "install one, or download the files yourself and name their directory"
      fi ;;
    *) cp -- "$from/$1" "$2" ;;
  esac
}

sum_of() {
  if has sha256sum; then sha256sum "$1"
  elif has shasum; then shasum -a 256 "$1"
  elif has openssl; then openssl dgst -sha256 -r "$1"
  else fail "there is no program for SHA-256" "install coreutils (sha256sum)"
  fi | cut -c 1-64
}

# The name of the archive: the only line of SHA256SUMS for this processor and version.
choose_archive() {
  pattern='[0-9][0-9A-Za-z.+~-]*'
  [ -z "$version" ] || pattern=$(printf '%s' "$version" | sed 's/[^0-9A-Za-z~-]/[&]/g')
  found=$(grep -E -o "^[0-9a-f]{64} [ *]nanoclaw-$pattern-$cpu-linux\.tar\.gz\$" "$work/SHA256SUMS" | cut -c 67-) || true
  case $found in
    '') fail "SHA256SUMS at '$from' lists no archive${version:+ of version $version} for Linux on $cpu" \
      "build it from the source: scripts/build-static" ;;
    *"
"*) fail "'$from' holds several versions: $found" "choose one: --version VERSION" ;;
  esac
  archive=$found
}

# Puts a file in place in one step, so that a running server keeps its old binary.
place() {
  mkdir -p "$(dirname "$2")" && cp "$1" "$2.new.$$" && chmod "$3" "$2.new.$$" && mv -f "$2.new.$$" "$2" || {
    rm -f "$2.new.$$"
    fail "cannot write '$2'" "name a directory that you may write to: --prefix DIR"
  }
}

place_all() {
  tree=$work/${archive%.tar.gz}
  new=$prefix/bin/nanoclaw.new.$$
  mkdir -p "$prefix/bin" 2>/dev/null && cp "$tree/bin/nanoclaw" "$new" 2>/dev/null && chmod 0755 "$new" ||
    { rm -f "$new"; fail "cannot write to '$prefix/bin'" "name a directory that you may write to: --prefix DIR"; }
  "$new" --version >/dev/null 2>&1 || { rm -f "$new"; fail "the binary does not run here" "it needs Linux 5.15 or newer on $cpu, and '$prefix' must allow programs"; }
  # The binary comes last: until then the old one has its own files or none has changed.
  for file in $(cd "$tree" && find share LICENSE* -type f); do
    case $file in
      share/nanoclaw/scripts/*) place "$tree/$file" "$prefix/$file" 0755 ;;
      share/*) place "$tree/$file" "$prefix/$file" 0644 ;;
      *) place "$tree/$file" "$prefix/share/doc/nanoclaw/$file" 0644 ;;
    esac
  done
  mv -f "$new" "$prefix/bin/nanoclaw"
}

describe() {
  printf '%s is installed: %s\n' "$("$prefix/bin/nanoclaw" --version)" "$prefix/bin/nanoclaw"
  other=$(command -v nanoclaw || true)
  case $other in
    "$prefix/bin/nanoclaw") ;;
    '') printf 'note: %s is not in $PATH\n' "$prefix/bin" ;;
    *) printf 'note: %s comes first in $PATH\n' "$other" ;;
  esac
  printf 'next: nanoclaw doctor says what works on this machine; nanoclaw serve starts a server\n'
  printf 'to run it as a systemd service: sudo %s/share/nanoclaw/scripts/install\n' "$prefix"
}

uninstall() {
  for path in bin/nanoclaw share/nanoclaw share/doc/nanoclaw share/bash-completion/completions/nanoclaw \
    share/zsh/site-functions/_nanoclaw share/fish/vendor_completions.d/nanoclaw.fish; do
    rm -rf "${prefix:?}/$path" || fail "cannot remove '$prefix/$path'"
  done
  rm -f "$prefix"/share/man/man1/nanoclaw.1 "$prefix"/share/man/man1/nanoclaw-*.1
  echo "removed from $prefix; data and configuration stay"
}

main() {
  from=${GET_NANOCLAW_FROM:-} prefix='' version='' remove=''
  while [ $# -gt 0 ]; do
    case $1 in
      --prefix) prefix=${2:-}; [ -n "$prefix" ] || fail "--prefix needs a directory"; shift ;;
      --version) version=${2:-}; [ -n "$version" ] || fail "--version needs a version"; shift ;;
      --uninstall) remove=1 ;;
      -h | --help) usage; exit ;;
      -*) usage >&2; exit 2 ;;
      *) from=$1 ;;
    esac
    shift
  done
  if [ -z "$prefix" ]; then
    if [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix=${HOME:?}/.local; fi
  fi
  case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
  prefix=${prefix%/}
  if [ -n "$remove" ]; then uninstall; exit; fi
  [ -n "$from" ] || { usage >&2; exit 2; }
  from=${from#file://} from=${from%/}

  [ "$(uname -s)" = Linux ] || fail "NanoClaw needs Linux, and this is $(uname -s)"
  case $(uname -m) in
    x86_64 | amd64) cpu=x86_64 ;;
    aarch64 | arm64) cpu=aarch64 ;;
    *) fail "there is no archive for $(uname -m)" "build it from the source: scripts/build-static" ;;
  esac
  case $from in
    http://localhost[:/]* | http://127.* | "http://[::1]"*) ;;
    http://*) echo "note: http:// does not protect the download; use https:// where you can" >&2 ;;
  esac

  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  trap 'exit 1' HUP INT TERM
  fetch SHA256SUMS "$work/SHA256SUMS" || fail "there is no SHA256SUMS at '$from'; nothing was installed" "name the directory or address of a release"
  choose_archive
  fetch "$archive" "$work/$archive" || fail "cannot get $archive from '$from'; nothing was installed" "try again"
  expected=$(grep -F "$archive" "$work/SHA256SUMS" | cut -c 1-64)
  actual=$(sum_of "$work/$archive")
  [ "$expected" = "$actual" ] || fail "the checksum of $archive is $actual, not $expected; nothing was installed" "the file is incomplete or was changed: get it again"
  tar -C "$work" -xzof "$work/$archive" || fail "cannot unpack $archive; nothing was installed"
  place_all
  describe
}

# The last line: a script that arrives incomplete does nothing.
main "$@"
