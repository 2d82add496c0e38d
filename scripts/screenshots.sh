#!/usr/bin/env bash
# Makes the pictures of README.md in docs/images: the explorer and the playground, on the chain of `btcgraph demo`.
#
#   usage: scripts/screenshots.sh
#
# Needs what `make demo` and the tests of pages need: Node.js and a Chromium, which root on Debian gets by apt-get.
# Takes some minutes: it waits until there are blocks and unconfirmed transactions to see.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/npm.sh --install-node tests/web
chromium=$(scripts/chromium.sh)
scripts/playground.sh --install-node
cargo build --locked

work=$(mktemp -d)
trap 'kill "$demo" 2>/dev/null || true; rm -rf "$work"' EXIT
target/debug/btcgraph demo --listen 127.0.0.1:0 --port-file "$work/port" 2>"$work/log" &
demo=$!
for _ in $(seq 100); do
  [ -s "$work/port" ] && break
  sleep 0.2
done
[ -s "$work/port" ] || { echo "screenshots.sh: the demo does not start:" >&2; cat "$work/log" >&2; exit 1; }

mkdir -p docs/images
cd tests/web
node screenshots.js "$chromium" "http://127.0.0.1:$(cat "$work/port")" ../../docs/images
