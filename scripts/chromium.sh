#!/bin/sh
# Prints the path of a Chromium for the browser tests; installs Debian's if there is none and that can be done.
# usage: scripts/chromium.sh [--quiet]     (`make test` calls it; PARQLAKE_CHROMIUM names one of your own)
#
# Without one it prints nothing and exits with 0: the tests then skip what needs a browser, or fail if CI=true.
set -u

[ "${1:-}" = "--quiet" ] && exec >/dev/null
found() {
  [ -n "${PARQLAKE_CHROMIUM:-}" ] && [ -x "$PARQLAKE_CHROMIUM" ] && printf '%s\n' "$PARQLAKE_CHROMIUM" && return 0
  for name in chromium chromium-browser google-chrome google-chrome-stable; do
    command -v "$name" 2>/dev/null && return 0
  done
  return 1
}

found && exit 0
if command -v apt-get >/dev/null 2>&1; then
  as_root=
  if [ "$(id -u)" -ne 0 ]; then
    as_root="sudo -n"
    sudo -n true 2>/dev/null || as_root=none
  fi
  if [ "$as_root" != none ]; then
    echo "chromium: installing Debian's for the browser tests; this takes a minute" >&2
    export DEBIAN_FRONTEND=noninteractive
    { $as_root apt-get -qq update && $as_root apt-get -qq install --yes --no-install-recommends chromium fonts-inter; } \
      >/dev/null 2>&1 || $as_root apt-get -qq install --yes --no-install-recommends chromium >/dev/null 2>&1
  fi
fi
found || echo "chromium: none here, and none can be installed; tests of the explorer in a browser are skipped" >&2
exit 0
