#!/usr/bin/env bash
# Builds the program as it is released, in target/release-files: btcgraph, with function names for backtraces and without
# line tables, and btcgraph.debug, the debug information that gdb, perf and addr2line find by a link in the program.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v objcopy >/dev/null || { echo "release.sh: objcopy is missing; it comes with binutils" >&2; exit 1; }
cargo build --locked --profile dist

mkdir -p target/release-files
cd target/release-files
objcopy --only-keep-debug ../dist/btcgraph btcgraph.debug
objcopy --strip-debug --add-gnu-debuglink=btcgraph.debug ../dist/btcgraph btcgraph
du -h btcgraph btcgraph.debug
