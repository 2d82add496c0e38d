#!/usr/bin/env bash
# Runs all tests after setting up what they need, and ends with the table of those that could not run.
#
#   usage: scripts/test.sh [ARGUMENTS OF cargo test]
#
# A test that cannot run here (no node, say) appends `name<TAB>reason` to the file named by $BTCGRAPH_SKIPS and
# returns. With CI=true only absent shared data excuses a test, so that nothing goes unnoticed there.
set -euo pipefail
cd "$(dirname "$0")/.."

# The licence test reads the dependencies of all platforms, which a build alone does not download.
cargo fetch --locked || echo "test.sh: going on with the dependencies that are already here" >&2

# the program embeds it
scripts/playground.sh --install-node

mkdir -p target
BTCGRAPH_SKIPS=$(mktemp "$PWD/target/skips.XXXXXX")
export BTCGRAPH_SKIPS

# All tests are built meanwhile: what is set up below is downloaded for the most part. In a process group of its own, which ends whole.
build=
if [ $# -eq 0 ]; then
  set -m
  cargo test --locked --no-run &
  build=$!
  set +m
fi
trap '[ -z "$build" ] || kill -- "-$build" 2>/dev/null || true; rm -f "$BTCGRAPH_SKIPS"' EXIT

if node=$(scripts/bitcoind.sh); then
  export BITCOIND_EXE=$node
else
  echo "test.sh: going on without a node; the tests that need one will be listed as skipped" >&2
fi

scripts/npm.sh --install-node tests/web ||
  echo "test.sh: going on without graphql-js; the tests that need it will be listed as skipped" >&2

scripts/python.sh --install-python tests/python ||
  echo "test.sh: going on without schemathesis; the test that needs it will be listed as skipped" >&2

scripts/python.sh --install-python tests/s3 ||
  echo "test.sh: going on without an S3 server; the tests that need one will be listed as skipped" >&2

if chromium=$(scripts/chromium.sh); then
  export CHROMIUM_EXE=$chromium
else
  echo "test.sh: going on without a browser; the tests that need one will be listed as skipped" >&2
fi

scripts/tools.sh haproxy nginx=nginx-light bash zsh fish groff=groff-base systemd-analyze=systemd ||
  echo "test.sh: going on without them; the tests that need them will be listed as skipped" >&2

# tests wait for nodes, browsers and sockets: with two threads a processor a sixth of it is idle; three gain little, and health checks
# of a balancer time out then
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((5 * $(nproc) / 2))}

status=0
# what fails to build fails again below
[ -z "$build" ] || wait "$build" || true
build=
cargo test --locked --no-fail-fast "$@" || status=$?

if [ -s "$BTCGRAPH_SKIPS" ]; then
  printf '\nskipped:\n'
  sort -u "$BTCGRAPH_SKIPS" | awk -F '\t' '{ printf "  %-60s %s\n", $1, $2 }'
  if [ "${CI:-}" = true ] && grep -qvE '	.*(shared data|\.\./shared)' "$BTCGRAPH_SKIPS"; then
    echo "test.sh: on CI every test has to run unless it is for shared data that is not there" >&2
    [ "$status" -ne 0 ] || status=1
  fi
else
  printf '\nskipped: none\n'
fi
exit "$status"
