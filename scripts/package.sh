#!/usr/bin/env bash
# Builds the Debian package in target/package: the program with its man pages, completions, service and settings.
#
#   usage: scripts/package.sh [PROFILE]
#
# PROFILE is that of cargo, `release` if none is given.
set -euo pipefail
cd "$(dirname "$0")/.."

profile=${1:-release}
cargo deb --version >/dev/null 2>&1 ||
  { echo "package.sh: cargo-deb is missing; to install it: cargo install --locked cargo-deb" >&2; exit 1; }
# without it cargo-deb makes a package that depends on no C library
command -v dpkg-shlibdeps >/dev/null || { echo "package.sh: dpkg-shlibdeps is missing; it comes with dpkg-dev" >&2; exit 1; }
cargo build --locked --bin btcgraph --profile "$profile"
program=target/$profile/btcgraph
[ "$profile" != dev ] || program=target/debug/btcgraph

rm -rf target/package
mkdir -p target/package
"$program" man --to target/package/man
"$program" completions bash >target/package/btcgraph.bash
"$program" completions zsh >target/package/_btcgraph
"$program" completions fish >target/package/btcgraph.fish
cargo deb --no-build --profile "$profile" --output target/package/
