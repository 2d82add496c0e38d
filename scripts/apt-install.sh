#!/usr/bin/env bash
# Installs packages of Debian, for the scripts that need a program which is not there.
#
#   usage: scripts/apt-install.sh PACKAGE…
#
# Only root on Debian can. Otherwise, and when it fails, the reason is on stdout, in one line, and the exit code is 1.
set -euo pipefail

if ! command -v apt-get >/dev/null; then
  echo "without apt-get (this is not Debian) it cannot be installed"
  exit 1
fi
if [ "$(id -u)" != 0 ]; then
  echo "only root can install it; to do so: sudo apt-get install $*"
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
if ! { apt-get -qq update && apt-get -qq install --yes --no-install-recommends "$@"; } >&2; then
  echo "apt-get could not install $*"
  exit 1
fi
