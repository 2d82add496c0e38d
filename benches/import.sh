#!/usr/bin/env bash
# How fast an index catches up with a node over REST: generates a chain of the shape of mainnet, lets a real node validate
# it, imports it all but the last 100 blocks, and measures these. Ends with the ratio to only fetching, parsing and hashing
# the same blocks.
#
# Chains of fewer than 1,006 blocks are connected block by block, as all blocks after a first import are.
#
#   usage: benches/import.sh DIRECTORY [TRANSACTIONS [BLOCKS]]     (1,000,000 in 400 blocks; needs about 5 GB)
set -euo pipefail
cd "$(dirname "$0")/.."
directory=${1:?usage: benches/import.sh DIRECTORY [TRANSACTIONS [BLOCKS]]}
transactions=${2:-1000000}
blocks=${3:-400}
mkdir -p "$directory/node"
directory=$(cd "$directory" && pwd)
bitcoind=$(scripts/bitcoind.sh)
port=$((20000 + RANDOM % 20000))
cookie=$directory/node/regtest/.cookie

cargo build --release --locked --bins --examples
chain=$directory/chain-$transactions-$blocks.blk
[ -e "$chain" ] || target/release/examples/make-chain --transactions "$transactions" --blocks "$blocks" --seed 1 "$chain"

rpc() { # method, parameters as JSON
  curl -sS --user "$(cat "$cookie")" --data-binary "{\"method\":\"$1\",\"params\":[${2:-}]}" "http://127.0.0.1:$port/" |
    sed -E 's/^\{"result":"?([^",}]*).*/\1/'
}
wait_for_height() {
  until [ -e "$cookie" ] && [ "$(rpc getblockcount 2>/dev/null)" = "$1" ]; do
    kill -0 "$node" 2>/dev/null || { echo "import.sh: the node has ended; see $directory/node/regtest/debug.log" >&2; exit 1; }
    sleep 1
  done
}
"$bitcoind" -datadir="$directory/node" -chain=regtest -connect=0 -listen=0 -dnsseed=0 -checkblockindex=0 -rest=1 \
  -server=1 -rpcport=$port -dbcache=1000 -maxtipage=9999999999 -loadblock="$chain" >/dev/null 2>&1 &
node=$!
trap 'kill $node 2>/dev/null; wait $node 2>/dev/null' EXIT
wait_for_height "$blocks"

btcgraph() {
  /usr/bin/time -f "%M kB of memory at most, %U s user, %S s system" \
    target/release/btcgraph import --network regtest --data-dir "$directory" --rpc-url "http://127.0.0.1:$port" \
    --rpc-cookie "$cookie" 2>&1 | grep -E "sync::progress: connected|memory at most" | sed -E 's/.*progress: //'
}
rm -rf "$directory/regtest"
first=$((blocks - 100))
cut=$(rpc getblockhash $((first + 1)))
rpc invalidateblock "\"$cut\"" >/dev/null
wait_for_height "$first"
echo "== import of blocks 0 to $first"
btcgraph
rpc reconsiderblock "\"$cut\"" >/dev/null
wait_for_height "$blocks"
echo "== import of the last 100 blocks"
btcgraph | tee "$directory/import.txt"
echo "== only fetching, parsing and hashing the last 100 blocks"
target/release/examples/fetch-chain --rpc-url "http://127.0.0.1:$port" --rpc-cookie "$cookie" --from $((first + 1)) \
  2>/dev/null | tee "$directory/fetch.txt"
imported=$(sed -nE 's/.*transactions_per_second=([0-9]+).*/\1/p' "$directory/import.txt")
fetched=$(sed -nE 's/.*, ([0-9]+) transactions a second.*/\1/p' "$directory/fetch.txt")
awk -v i="$imported" -v f="$fetched" 'BEGIN { printf "== %d transactions a second, %.2f of only fetching them\n", i, i / f }'
