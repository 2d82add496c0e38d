#!/usr/bin/env bash
# Kills an import KILLS times (10) at random moments (kill -9), lets it finish, and compares every row of the result with an
# import that was left alone.
#
#   usage: scripts/kill-import.sh DIRECTORY ARGUMENTS OF btcgraph import
#   e.g.:  scripts/kill-import.sh /tmp/kill --network regtest --rpc-url http://127.0.0.1:18443 --memory 128MiB
#
# Needs a release build, or another program at the path BTCGRAPH, and a node with a chain that takes a minute or more to
# import. Less memory makes it take longer. Small values of BTCGRAPH_INDEX__FREEZE_DEPTH and BTCGRAPH_INDEX__FREEZE_EVERY
# have all but the newest blocks imported in bulk, whatever the length of the chain.
set -euo pipefail
directory=${1:?usage: kill-import.sh DIRECTORY ARGUMENTS OF btcgraph import}
shift
btcgraph=${BTCGRAPH:-$(cd "$(dirname "$0")/.." && pwd)/target/release/btcgraph}
kills=${KILLS:-10}
# equal chains make equal rows only with equal salts
export BTCGRAPH_INDEX__SALT=00112233445566778899aabbccddeeff
mkdir -p "$directory"

started=$EPOCHREALTIME
"$btcgraph" import --data-dir "$directory/alone" "$@" 2>"$directory/alone.log"
whole=$(awk -v from="$started" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.2f", to - from }')
echo "left alone: $whole s"

for kill in $(seq 1 "$kills"); do
  "$btcgraph" import --data-dir "$directory/killed" "$@" 2>>"$directory/killed.log" &
  pause=$(awk -v most="$whole" -v kills="$kills" -v seed="$RANDOM" 'BEGIN { srand(seed); printf "%.2f", 0.02 + rand() * most * 5 / 3 / kills }')
  sleep "$pause"
  if kill -9 $! 2>/dev/null; then echo "kill $kill after $pause s"; else echo "kill $kill: had finished before $pause s"; fi
  wait $! 2>/dev/null || true
done
started=$SECONDS
"$btcgraph" import --data-dir "$directory/killed" "$@" 2>>"$directory/killed.log"
echo "the rest: $((SECONDS - started)) s"

for index in alone killed; do
  "$btcgraph" verify --data-dir "$directory/$index" "$@" >"$directory/$index.report" 2>>"$directory/$index.log"
done
cat "$directory/killed.report"
if diff "$directory/alone.report" "$directory/killed.report"; then
  echo "every row is the same"
else
  echo "the rows differ" >&2
  exit 1
fi
