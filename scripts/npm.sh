#!/usr/bin/env bash
# Installs what the tests need of npm into tests/web/node_modules, exactly as the lockfile there says.
#
#   usage: scripts/npm.sh
#
# Does nothing when that is there already and not older than the lockfile. Node.js comes from the PATH; where there is
# none, root on Debian gets it by apt-get, and others are told so with exit code 1. No script of a package is run.
set -euo pipefail
cd "$(dirname "$0")/../tests/web"

fail() {
  echo "npm.sh: $1; the tests that compare with graphql-js need Node.js 18 or newer and npm" >&2
  exit 1
}

if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
  command -v apt-get >/dev/null || fail "node or npm is not on the PATH, and without apt-get (this is not Debian) it cannot be installed"
  [ "$(id -u)" = 0 ] || fail "node or npm is not on the PATH, and only root can install it; to do so: sudo apt-get install nodejs npm"
  {
    apt-get -qq update &&
      DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends nodejs npm
  } >&2 || fail "apt-get could not install nodejs and npm"
fi

# npm writes this file last, so an interrupted installation is begun anew
if [ node_modules/.package-lock.json -nt package-lock.json ]; then
  exit
fi
npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2 || fail "npm ci failed in tests/web"
touch node_modules/.package-lock.json
