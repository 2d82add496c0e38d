#!/usr/bin/env bash
# An index on many machines, on one: publishers, joiners and replicas with Garage as the store of objects, killed, cut off and
# measured (benches/fleet). Fails if anything ends other than it must. docs/operations.md has its report.
#
#   usage: scripts/fleet.sh [ARGUMENTS OF benches/fleet]     e.g. --transactions 0 to measure only, --long 0 to measure nothing
#
# PROFILE=dev builds as the tests are built, in minutes instead of half an hour: what fails is the same, and figures are slower.
# Needs HAProxy, which root on Debian gets, and ten minutes more for Garage at the first time (scripts/garage.sh).
set -euo pipefail
cd "$(dirname "$0")/.."

garage=$(scripts/garage.sh)
scripts/tools.sh haproxy

cargo bench --locked --profile "${PROFILE:-bench}" --bench fleet -- --garage "$garage" "$@"
