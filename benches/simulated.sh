#!/usr/bin/env bash
# How fast an index of a long chain is made, and that it is right, without a bitcoind: generates a chain of the shape of
# mainnet, serves it as a simulated node, imports it, and verifies the index against that node. Fails unless the index is
# clean. A chain of 1,006 blocks or more, with some 2,750,000 transactions, is imported in bulk from the node's block files, a
# shorter one block by block over REST; with BTCGRAPH_INDEX__RAW_TRANSACTIONS=index so is every chain.
#
#   usage: benches/simulated.sh DIRECTORY [TRANSACTIONS]     (1,000,000, which needs about 2 GB; 10,000,000 about 15 GB)
#
# PROFILE=dev measures nothing worth knowing, but shows that all of it works without a release build.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -x /usr/bin/time ] || { echo "simulated.sh: GNU time is not installed; on Debian: apt-get install time" >&2; exit 1; }
directory=${1:?usage: benches/simulated.sh DIRECTORY [TRANSACTIONS]}
transactions=${2:-1000000}
profile=${PROFILE:-release}
built=target/$profile
[ "$profile" = dev ] && built=target/debug
directory=$directory/simulated-$transactions
rm -rf "$directory"
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)

cargo build --profile "$profile" --locked --bin btcgraph --example sim-node

"$built/examples/sim-node" --transactions "$transactions" --seed 1 --xor --port-file "$directory/port" "$directory/node" \
  >"$directory/node.log" 2>"$directory/node.err" &
node=$!
trap 'kill $node 2>/dev/null || true; wait $node 2>/dev/null || true' EXIT
until [ -s "$directory/port" ]; do
  kill -0 "$node" 2>/dev/null || { echo "simulated.sh: the node has ended:" >&2; cat "$directory/node.err" >&2; exit 1; }
  sleep 1
done
memory_of() { # process; at most so far
  sed -nE 's/^VmHWM:\s*([0-9]+) kB/\1 kB of memory at most/p' "/proc/$1/status"
}
echo "== generation of the chain"
sed '$d' "$directory/node.log"
memory_of "$node"

btcgraph() { # command, then flags
  /usr/bin/time -o "$directory/time" -f "%e s, %M kB of memory at most, %U s user, %S s system" \
    "$built/btcgraph" "$@" --network regtest --data-dir "$directory" --rpc-url "http://127.0.0.1:$(cat "$directory/port")" \
    --rpc-cookie "$directory/node/.cookie"
}
echo "== import"
btcgraph import >"$directory/import.log" 2>&1 || { cat "$directory/import.log" >&2; exit 1; }
sed -nE 's/.*sync::import_progress: (imported.*)/\1/p' "$directory/import.log"
sed -nE 's/.*sync::progress: (connected.*)/\1/p' "$directory/import.log" | tail -1
cat "$directory/time"
find "$directory/regtest" \( -name index.redb -o -path '*/index.frozen/*' \) -printf '%s\n' |
  awk '{ bytes += $1 } END { printf "%d bytes of index\n", bytes }'
awk -v t="$transactions" '{ printf "%d transactions a second, start and commits included\n", t / $1 }' "$directory/time"

echo "== verify"
clean=true
btcgraph verify >"$directory/verify.txt" 2>"$directory/verify.log" || clean=false
cat "$directory/time"
grep -v '^ ' "$directory/verify.txt" | tail -12 || true
echo "== the simulated node, asked for all of this"
memory_of "$node"
$clean || { cat "$directory/verify.log" >&2; echo "== the index is NOT what it must be: see $directory/verify.txt"; exit 1; }
echo "== clean"
