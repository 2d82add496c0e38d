#!/usr/bin/env bash
# Looks for programs that some tests need, and installs those that are missing.
#
#   usage: scripts/tools.sh PROGRAM[=PACKAGE]…
#
# Without the right to install, or without Debian, it names what is missing on stderr and exits 1. A server among them (HAProxy,
# nginx) is not started by its package, and not at the next boot either: the tests start their own.
set -euo pipefail

PATH=$PATH:/usr/sbin:/usr/local/sbin
missing=() packages=()
for tool in "$@"; do
  program=${tool%%=*}
  command -v "$program" >/dev/null && continue
  missing+=("$program")
  packages+=("${tool#*=}")
done
[ ${#missing[@]} -gt 0 ] || exit 0

export SYSTEMD_OFFLINE=1
if ! reason=$("$(dirname "$0")/apt-install.sh" "${packages[@]}"); then
  echo "tools.sh: there is no ${missing[*]}, and $reason" >&2
  exit 1
fi
if command -v systemctl >/dev/null; then
  for server in haproxy nginx; do
    [[ " ${missing[*]} " != *" $server "* ]] || systemctl --quiet disable "$server" >&2 || true
  done
fi
