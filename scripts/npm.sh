#!/usr/bin/env bash
# Installs what a folder needs of npm into its node_modules, exactly as the lockfile there says.
#
#   usage: scripts/npm.sh [--install-node] FOLDER
#
# Does nothing when that is there already and not older than the lockfile. Node.js comes from the PATH, as new as the
# folder's package.json asks for; where there is none, and with --install-node, root on Debian gets it by apt-get, and
# others get a message and exit code 1. No script of a package is run.
set -euo pipefail
scripts=$(cd "$(dirname "$0")" && pwd)

install=no
if [ "${1:-}" = --install-node ]; then
  install=yes
  shift
fi
folder=${1:?usage: scripts/npm.sh [--install-node] FOLDER}
cd "$folder"
needed=$(sed -nE 's/.*"node": *">=([0-9]+)".*/\1/p' package.json)

fail() {
  echo "npm.sh: $1; $folder needs Node.js $needed or newer and npm" >&2
  exit 1
}

if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
  [ "$install" = yes ] || fail "node or npm is not on the PATH"
  reason=$("$scripts/apt-install.sh" nodejs npm) || fail "node or npm is not on the PATH, and $reason"
fi
version=$(node --version)
major=${version#v}
[ "${major%%.*}" -ge "$needed" ] || fail "the node on the PATH is $version"

# npm writes this file last, so an interrupted installation is begun anew
if [ node_modules/.package-lock.json -nt package-lock.json ]; then
  exit
fi
npm ci --ignore-scripts --fetch-retries=1 --no-audit --no-fund --loglevel=error >&2 || fail "npm ci failed in $folder"
touch node_modules/.package-lock.json
