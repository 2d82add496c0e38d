#!/usr/bin/env bash
# Prints the path of a bitcoind for the tests that need a real node.
#
#   usage: BITCOIND_EXE=$(scripts/bitcoind.sh)
#
# It takes the first of: $BITCOIND_EXE; `bitcoind` on the PATH; on Debian, the package bitcoin-knots (derived from
# Bitcoin Core) of the backports suite below. The package is unpacked with all it needs, C library included, into
# the user's cache, so it runs on older releases too, and nothing of the system is changed: no root, no install,
# no maintainer script. About 20 MB are downloaded once; later calls find the unpacked node and do nothing.
#
# Without any of these it prints nothing on stdout, the reason on stderr, and exits 1.
set -euo pipefail

suite=trixie
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
cache=${XDG_CACHE_HOME:-${HOME:-$(cd "$(dirname "$0")/.." && pwd)/target}/.cache}/btcgraph
home=$cache/bitcoind-$suite # removing this folder makes the next call fetch the package anew

fail() {
  echo "bitcoind.sh: $1; to choose a node yourself, set BITCOIND_EXE to a bitcoind" >&2
  exit 1
}

runs() { "$1" --version >/dev/null 2>&1; }

if [ -n "${BITCOIND_EXE:-}" ]; then
  runs "$BITCOIND_EXE" || fail "BITCOIND_EXE is '$BITCOIND_EXE', which does not run"
  echo "$BITCOIND_EXE"
  exit
fi
if exe=$(command -v bitcoind) && runs "$exe"; then
  echo "$exe"
  exit
fi

for tool in apt-get dpkg-deb flock; do
  command -v "$tool" >/dev/null || fail "no bitcoind on the PATH, and without $tool (this is not Debian) none can be fetched"
done
[ -r "$keyring" ] || fail "no bitcoind on the PATH, and without Debian's archive keys ($keyring) none can be fetched"

# The archives that this machine's apt is set up with, in both of its notations, each once.
archives() {
  {
    cat /etc/apt/sources.list.d/*.sources 2>/dev/null | sed -nE 's/^URIs: *//p' | tr -s ' ' '\n'
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
      sed -nE 's/^deb +(\[[^]]*\] +)?([^ ]+) .*/\2/p'
  } | awk '!seen[$0]++' || true
}

# Runs an apt tool ($2…) in the folder $1, as if on a system of its own with no package installed.
apt_in() {
  local dir=$1 tool=$2
  shift 2
  "$tool" -qq -o Dir::State="$dir" -o Dir::State::status="$dir/status" -o Dir::Cache="$dir" \
    -o Dir::Etc::sourcelist="$dir/sources.list" -o Dir::Etc::sourceparts=- -o Dir::Etc::preferencesparts=- \
    -o Acquire::Languages=none -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 \
    -o APT::Sandbox::User= -o Debug::NoLocking=true "$@"
}

# Downloads the package and what it depends on from archive $2 into the folder $1.
download() {
  local dir=$1 archive=$2 s
  mkdir -p "$dir/lists/partial" "$dir/archives/partial"
  : >"$dir/status"
  for s in "$suite" "$suite-backports"; do
    echo "deb [signed-by=$keyring] $archive $s main"
  done >"$dir/sources.list"
  apt_in "$dir" apt-get -o APT::Update::Error-Mode=any update &&
    # the standalone sysusers tool satisfies a dependency that would otherwise bring in all of systemd
    apt_in "$dir" apt-get install --yes --download-only --no-install-recommends \
      "bitcoin-knots/$suite-backports" systemd-standalone-sysusers
}

# Writes a wrapper for the program $2 of the unpacked tree $1/root, started through that tree's own loader.
wrap() {
  local dir=$1 program=$2
  cat >"$dir/$program" <<'W'
#!/bin/sh
root=$(dirname "$(readlink -f "$0")")/root
set -- "$root/usr/bin/$(basename "$0")" "$@"
for loader in "$root"/usr/lib/*/ld-linux*.so.* "$root"/usr/lib*/ld-linux*.so.*; do
  [ -x "$loader" ] && exec "$loader" --library-path "$(dirname "$loader")" "$@"
done
echo "$0: no loader in $root" >&2
exit 127
W
  chmod +x "$dir/$program"
}

mkdir -p "$cache" || fail "cannot write to $cache"
exec 9>"$home.lock"
flock 9 # a second caller waits here, and then finds the first one's work done
if ! runs "$home/bitcoind"; then
  work=$(mktemp -d "$home.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  for archive in $(archives); do
    if download "$work/apt" "$archive" >"$work/log" 2>&1; then
      found=yes
      break
    fi
    rm -rf "$work/apt"
  done
  [ "${found:-}" = yes ] || fail "no bitcoind on the PATH, and none of this machine's apt sources gave bitcoin-knots of $suite-backports (no network?)"
  mkdir "$work/node"
  for package in "$work"/apt/archives/*.deb; do
    dpkg-deb -x "$package" "$work/node/root"
  done
  wrap "$work/node" bitcoind
  wrap "$work/node" bitcoin-cli
  runs "$work/node/bitcoind" || fail "the bitcoind of bitcoin-knots was unpacked but does not run here"
  rm -rf "$home"
  mv "$work/node" "$home" # in one step: an interrupted call leaves no half of a node
fi
echo "$home/bitcoind"
