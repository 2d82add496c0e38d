#!/usr/bin/env bash
# Prints the path of Garage, the distributed object store that `make fleet` publishes to.
#
#   usage: GARAGE_EXE=$(scripts/garage.sh)
#
# It takes the first of: $GARAGE_EXE; the version below from crates.io, built once into the user's cache, where later calls find
# it. The build takes ten minutes on two cores and one GB of disk while it runs. Garage is a service of the test alone: nothing of
# it is linked into btcgraph.
#
# If it cannot be built, it prints nothing on stdout, the reason on stderr, and exits 1.
set -euo pipefail

version=2.5.0
cache=${XDG_CACHE_HOME:-${HOME:-$(cd "$(dirname "$0")/.." && pwd)/target}/.cache}/btcgraph
home=$cache/garage-$version # removing this folder makes the next call build it again

fail() {
  echo "garage.sh: $1; to choose a Garage yourself, set GARAGE_EXE to the program" >&2
  exit 1
}

runs() { "$1" --version >/dev/null 2>&1; }

if [ -n "${GARAGE_EXE:-}" ]; then
  runs "$GARAGE_EXE" || fail "GARAGE_EXE is '$GARAGE_EXE', which does not run"
  echo "$GARAGE_EXE"
  exit
fi

for tool in cargo flock; do
  command -v "$tool" >/dev/null || fail "there is no $tool, and without it Garage cannot be built"
done
mkdir -p "$cache" || fail "cannot write to $cache"
exec 9>"$home.lock"
flock 9 # a second caller waits here, and then finds the first one's work done
if ! runs "$home/bin/garage"; then
  echo "garage.sh: building Garage $version, which takes some ten minutes; the log is $home.log" >&2
  # the target directory stays until the build succeeds, so that an interrupted one continues
  CARGO_TARGET_DIR=$home.target nice -n 10 cargo install garage --version "$version" --locked --root "$home" >"$home.log" 2>&1 ||
    fail "Garage $version cannot be built: $(tail -n 1 "$home.log")"
  rm -rf "$home.target"
fi
runs "$home/bin/garage" || fail "Garage was built but does not run here"
echo "$home/bin/garage"
