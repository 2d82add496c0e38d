#!/usr/bin/env bash
# Prints the path of a Chromium for the tests that need a browser.
#
#   usage: CHROMIUM_EXE=$(scripts/chromium.sh)
#
# It takes the first of: $CHROMIUM_EXE; chromium or Chrome on the PATH; Debian's package, which root gets by apt-get.
# Without any of these it prints nothing on stdout, the reason on stderr, and exits 1.
set -euo pipefail

fail() {
  echo "chromium.sh: $1; to choose a browser yourself, set CHROMIUM_EXE to a Chromium or Chrome" >&2
  exit 1
}

if [ -n "${CHROMIUM_EXE:-}" ]; then
  [ -x "$CHROMIUM_EXE" ] || fail "CHROMIUM_EXE is '$CHROMIUM_EXE', which is no program"
  echo "$CHROMIUM_EXE"
  exit
fi
on_path() { command -v chromium || command -v chromium-browser || command -v google-chrome; }
on_path && exit
reason=$("$(dirname "$0")/apt-install.sh" chromium) || fail "there is no chromium on the PATH, and $reason"
on_path || fail "apt-get installed chromium, and there is none on the PATH"
