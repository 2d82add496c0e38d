#!/usr/bin/env bash
# Installs what a folder needs of PyPI into its .venv, exactly as the requirements.txt there says, hashes included.
#
#   usage: scripts/python.sh [--install-python] FOLDER
#
# Does nothing when that is there already and not older than requirements.txt. Python comes from the PATH; where there is
# none that can make environments, and with --install-python, root on Debian gets it by apt-get, and others get a
# message and exit code 1. Nothing is built: only wheels are installed.
set -euo pipefail
scripts=$(cd "$(dirname "$0")" && pwd)

install=no
if [ "${1:-}" = --install-python ]; then
  install=yes
  shift
fi
folder=${1:?usage: scripts/python.sh [--install-python] FOLDER}
cd "$folder"

fail() {
  echo "python.sh: $1; $folder needs Python 3.11 or newer with venv and pip" >&2
  exit 1
}

# pip is done when this file is there
done=.venv/.installed
if [ "$done" -nt requirements.txt ]; then
  exit
fi

suits() { python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
if ! suits; then
  [ "$install" = yes ] || fail "no such python3 is on the PATH"
  reason=$("$scripts/apt-install.sh" python3 python3-venv) || fail "no such python3 is on the PATH, and $reason"
  suits || fail "the python3 on the PATH is not one, even with what apt-get installed"
fi
python3 -m venv --clear .venv >&2 || fail "the environment could not be made"
.venv/bin/pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r requirements.txt >&2 ||
  fail "pip install failed in $folder"
touch "$done"
