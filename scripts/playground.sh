#!/usr/bin/env bash
# Builds playground/dist, which the program embeds when it is compiled after that.
#
#   usage: scripts/playground.sh [--install-node]
#
# Does nothing when it is newer than its sources. The program can do without it: where there is no Node.js, or npm cannot
# load what the lockfile says, this tells so and succeeds. With --install-node, root on Debian gets Node.js by apt-get.
set -euo pipefail
cd "$(dirname "$0")/.."

sources=(playground/{src,build.mjs,tsconfig.json,package.json,package-lock.json} docs/clients src/server/playground/plain/examples.js)
if [ -e playground/dist/index.html ] && [ -z "$(find "${sources[@]}" -newer playground/dist/index.html)" ]; then
  exit
fi
if ! scripts/npm.sh "$@" playground; then
  echo "playground.sh: going on without the explorer and GraphiQL; / will say how to get them" >&2
  exit
fi
cd playground
npm run --silent build
