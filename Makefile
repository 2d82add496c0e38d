# What a developer and CI run. Needs a Rust toolchain; each target sets up the rest by itself.

.PHONY: help demo playground test lint release package machine fleet mutants bench bench-import audit

help: ## This list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1	\2/p' Makefile

demo: ## All of it on a simulated chain with live blocks, at http://127.0.0.1:8080; needs no node. Ctrl-c ends it
	scripts/playground.sh --install-node
	cargo run --locked -- demo

playground: ## The explorer and GraphiQL for the program to embed when it is built next; needs Node.js, and without it does nothing
	scripts/playground.sh

test: ## All tests, on a real node too where one can be had; ends with what was skipped and why
	scripts/test.sh

lint: ## Formatting, clippy and the documentation, warnings as errors
	cargo fmt --all --check
	cargo fmt --check --manifest-path fuzz/Cargo.toml
	cargo clippy --locked --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --document-private-items

release: ## The program as released, and its debug information in a file of its own, in target/release-files
	scripts/playground.sh
	scripts/release.sh

package: ## A Debian package of the program with man pages, completions and a service, in target/package; needs cargo-deb and dpkg-dev
	scripts/playground.sh
	scripts/package.sh

machine: ## The examples that build and install the program, on throw-away machines (docs/testing.md); needs root on Debian; an hour or two
	scripts/machine.sh

fleet: ## An index on many machines, with Garage as the store: kills, outages, full disks, figures (docs/operations.md); an hour
	scripts/fleet.sh

mutants: ## Whether a test notices each change to connecting and disconnecting blocks, by cargo-mutants (docs/testing.md); hours
	scripts/mutants.sh

bench: ## The figures of benches/README.md, most of an hour: an import, queries, the mempool, subscribers, transport, an attack
	benches/import.sh target/bench
	benches/queries.sh target/bench
	cargo bench --locked --bench mempool
	cargo bench --locked --bench live
	cargo bench --locked --bench live -- fanout
	cargo bench --locked --bench bulk
	cargo bench --locked --bench reads
	cargo bench --locked --bench merging
	cargo bench --locked --bench series
	cargo bench --locked --bench guard
	cargo bench --locked --bench costs
	cargo bench --locked --bench stock
	cargo build --locked --release
	benches/attack.py target/release/btcgraph

bench-import: ## An import and its verification on a simulated chain, without a bitcoind; N=10000000 for a long one
	benches/simulated.sh target/bench $(or $(N),1000000)

audit: ## Licences, sources and known vulnerabilities of the dependencies, by cargo-deny
	@cargo deny --version >/dev/null 2>&1 || { echo "cargo-deny is not installed; to install it: cargo install --locked cargo-deny" >&2; exit 1; }
	cargo deny --locked check
