#!/usr/bin/env bash
# Changes the code that connects and disconnects blocks in every way that cargo-mutants knows, one change at a time, and
# asks of each whether a test notices. What no test notices must stand in docs/testing.md with the reason why nothing
# can; any other fails, and so does a listed one that is noticed after all.
#
#   usage: scripts/mutants.sh [--list | ARGUMENTS OF cargo mutants]     e.g. --re resolve
#
# The whole program takes long to build, so a small crate is laid out in target/mutants, of copies of the modules chain, sim
# and index and of the tests that need no other. With arguments, which choose some of the changes, what is listed and
# not among them is no failure.
set -euo pipefail
cd "$(dirname "$0")/.."

# Whatever takes part in connecting and disconnecting a block.
files=(block codec hot/apply hot/effects hot/observed hot/resolve hot/tip_record hot/update keys statistics)
tables=(mod block_hashes block_starts blocks history meta p2pk payouts reorgs spends stale_blocks stale_transactions
  transactions txids unspent)

command -v cargo-mutants >/dev/null || { echo "mutants.sh: cargo-mutants is not installed; to install it: cargo install --locked cargo-mutants" >&2; exit 1; }

out=target/mutants

# The lines of Cargo.toml for those dependencies that these folders name.
dependencies() {
  sed -n '/^\[workspace.dependencies\]/,/^\[/p' Cargo.toml | grep -E '^[a-z0-9_-]+ = ' | while read -r line; do
    name=${line%% *}
    # what is a folder of this repository is copied, and no dependency there
    case $line in *'path = '*) continue ;; esac
    if grep -rqE "\b${name//-/_}::" "$@"; then printf '%s\n' "$line"; fi
  done
}
package() { printf '[package]\nname = "%s"\nversion = "0.0.0"\nedition = "2024"\npublish = false\n' "$1"; }

# Chain and sim are built once, beside what is changed; their files keep their times, so that they are not built again.
rm -rf "$out/base/src" "$out/src"
mkdir -p "$out/base/src" "$out/src"
cp -a src/chain src/sim "$out/base/src/"
{
  package base
  echo '[dependencies]'
  dependencies src/chain src/sim
} > "$out/base/Cargo.toml"
printf '#![allow(missing_docs, unused)]\npub mod chain;\npub mod sim;\n' > "$out/base/src/lib.rs"

cp -r src/index src/durable.rs "$out/src/"
cp -r tests/it "$out/src/it"
{
  package btcgraph
  echo '[dependencies]'
  echo 'base = { path = "base" }'
  dependencies src/index tests/it/support/indexed.rs tests/it/sync/histories
  printf '[profile.dev]\ndebug = false\n[profile.dev.package.base]\nopt-level = 2\n[workspace]\nmembers = ["base"]\n'
} > "$out/Cargo.toml"
cp Cargo.lock "$out/Cargo.lock"
cat > "$out/src/lib.rs" <<'RUST'
#![allow(missing_docs, dead_code, unused_imports)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
extern crate self as btcgraph;
pub use base::{chain, sim};
mod durable;
pub mod index;
#[cfg(test)]
#[path = "it/index/blocks.rs"]
mod index_tests;
#[cfg(test)]
#[path = "it/index/exact.rs"]
mod index_exact;
#[cfg(test)]
#[path = "it/index/model.rs"]
mod index_model;
#[cfg(test)]
#[path = "it/index/observed.rs"]
mod index_observed;
#[cfg(test)]
#[path = "it/sync/histories"]
mod histories {
    mod actions;
    mod blocks;
    mod branches;
    mod counts;
    mod crashes;
    mod player;
    mod prepared;
    mod purse;
    mod runner;
    mod smaller;
    mod straight;

    #[test]
    fn histories() {
        runner::run(0..6, || straight::Straight);
    }
}
#[cfg(test)]
#[path = "it/support"]
mod support {
    pub(crate) mod agree;
    pub(crate) mod indexed;
    pub(crate) mod model;
}
RUST

selected=()
for file in "${files[@]}"; do selected+=(--file "src/index/$file.rs"); done
for file in "${tables[@]}"; do selected+=(--file "src/index/hot/tables/$file.rs"); done

mutants() {
  cargo mutants --dir "$out" --output "$out" --in-place --colors never "${selected[@]}" "$@"
}
[ "${1:-}" != --list ] || { mutants --list; exit; }

# Indexes in memory commit many times faster than on a disk.
[ -w /dev/shm ] && export TMPDIR=/dev/shm

# The tests that take longest are asked only about what the others did not notice.
slow=(a_repeated_coinbase_overwrites after_a_reorganisation_the_rows histories:: one_by_one_or_in_batches sorter
  the_same_chain_is_reached whatever_repeats_overwrites)
quick=()
for test in "${slow[@]}"; do quick+=(--skip "$test"); done

# With these it says that something was missed or did not end: what of that may be is looked up below.
or_missed() { local code=$?; [ "$code" = 2 ] || [ "$code" = 3 ] || exit "$code"; }
rm -rf "$out/mutants.out"
mutants --timeout 60 "$@" -- --lib -- "${quick[@]}" || or_missed
mutants --timeout 240 --iterate "$@" -- --lib || or_missed

# What was not noticed, by file and change: lines move.
names() { sed -E 's/^([^:]*):[0-9]+:[0-9]+: /\1: /' | LC_ALL=C sort; }
cat "$out/mutants.out/missed.txt" "$out/mutants.out/timeout.txt" | names > "$out/unnoticed.txt"
sed -n 's/^- `\(src\/[^`]*\)`: .*/\1/p' docs/testing.md | LC_ALL=C sort > "$out/listed.txt"
unlisted=$(comm -23 "$out/unnoticed.txt" "$out/listed.txt")
# with arguments not all of the list was tried
noticed=
[ $# -gt 0 ] || noticed=$(comm -13 "$out/unnoticed.txt" "$out/listed.txt")
[ -z "$unlisted" ] || printf 'no test notices these changes, and docs/testing.md does not say why:\n%s\n' "$unlisted"
[ -z "$noticed" ] || printf 'docs/testing.md lists changes that are noticed, or not made:\n%s\n' "$noticed"
[ -z "$unlisted$noticed" ]
