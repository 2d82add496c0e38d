#!/usr/bin/env bash
# How fast an index is asked: serves the one that benches/import.sh leaves in DIRECTORY, without a node, and asks it over
# keep-alive connections with wrk. Ends with the ratios to `{ __typename }`, the least that any query costs.
#
#   usage: benches/queries.sh DIRECTORY [SECONDS]     (30 seconds each; needs wrk)
set -euo pipefail
cd "$(dirname "$0")/.."
directory=$(cd "${1:?usage: benches/queries.sh DIRECTORY [SECONDS]}" && pwd)
seconds=${2:-30}
command -v wrk >/dev/null || { echo "queries.sh: wrk is not here: apt install wrk, brew install wrk" >&2; exit 1; }

cargo build --release --locked --bins --examples
target/release/examples/pick-queries --data-dir "$directory" --out "$directory"
rm -f "$directory/port"
target/release/btcgraph serve --network regtest --data-dir "$directory" --listen 127.0.0.1:0 \
  --port-file "$directory/port" --rpc-url http://127.0.0.1:9 >"$directory/serve.log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null' EXIT
until [ -s "$directory/port" ]; do
  kill -0 "$server" || { cat "$directory/serve.log" >&2; exit 1; }
  sleep 0.1
done

ask() { # name, query, file of ids
  printf '%s' "$2" >"$directory/$1.graphql"
  # the first run fills the cache
  measure "$1" 10 "${3-}" >/dev/null
  measure "$1" "$seconds" "${3-}" >"$directory/$1.figures"
  printf '%-12s %s\n' "$1" "$(cat "$directory/$1.figures")"
}
measure() { # name, seconds, file of ids
  local output
  output=$(wrk -t1 -c16 "-d${2}s" -s benches/queries.lua "http://127.0.0.1:$(cat "$directory/port")/graphql" -- \
    "$directory/$1.graphql" ${3:+"$directory/$3"})
  if grep worthless <<<"$output" >&2; then exit 1; fi
  tail -1 <<<"$output"
}
entries='nodes { net balanceAfter transaction { txid fee confirmations block { height time } } }'
ask typename '{ __typename }'
ask transaction 'query($id: Txid!) { transaction(txid: $id) { txid fee vsize block { height }
  inputs { nodes { prevout { outpoint { text } value address } } }
  outputs { nodes { value address spentBy { index transaction { txid } } } } } }' transactions.txt
ask quiet "query(\$id: String!) { address(address: \$id) { balance { confirmed } transactions { totalCount $entries } } }" quiet.txt
ask busy "query(\$id: String!) { address(address: \$id) { balance { confirmed } transactions { totalCount $entries } } }" busy.txt

rate() { cut -d' ' -f1 "$directory/$1.figures"; }
awk -v t="$(rate transaction)" -v b="$(rate busy)" -v q="$(rate quiet)" -v n="$(rate typename)" 'BEGIN {
  printf "== a transaction: %.1f %% of { __typename }; the busiest address: %.2f times as long as a quiet one\n", 100 * t / n, q / b }'
