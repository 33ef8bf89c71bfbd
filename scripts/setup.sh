#!/bin/sh
# Makes .venv and installs parqlake into it, editable, with all extras and the developers' tools.
# usage: scripts/setup.sh [python]     (from the project's folder; `make setup` calls it)
#
# uv does it in seconds; where uv cannot be had, pip does the same work.
set -eu

python=${1:-python3}
fail() {
  printf 'setup: %s\n' "$@" >&2
  exit 1
}

command -v "$python" >/dev/null 2>&1 ||
  fail "\"$python\" was not found; install Python 3.11 or newer, or name one: make setup PYTHON=/path/to/python3"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  fail "\"$python\" is $("$python" -V 2>&1); parqlake needs 3.11 or newer. Name another: make setup PYTHON=python3.12"

here=$(pwd)
if [ -e .venv ]; then
  # A copied environment still points at where it came from; one of a removed Python does not start.
  made_in=$(cat .venv/.installed 2>/dev/null || echo "$here")
  if [ "$made_in" != "$here" ] || ! .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "setup: .venv cannot be used any more; making it anew"
    rm -rf .venv
  fi
fi
if [ ! -e .venv ]; then
  "$python" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "\"$python\" cannot make virtual environments: its venv module is incomplete." \
      "On Debian and Ubuntu: apt-get install python3-venv; then run make setup again."
  echo "setup: making .venv with $("$python" -V 2>&1)"
  "$python" -m venv .venv || { rm -rf .venv; fail "could not make .venv; see the message above"; }
fi
rm -f .venv/.installed

pip() {
  .venv/bin/python -m pip --quiet --disable-pip-version-check "$@"
}

with_uv() {
  [ -z "${PARQLAKE_NO_UV:-}" ] || return 1
  [ -x .venv/bin/uv ] || pip install --only-binary uv -c constraints.txt uv 2>/dev/null || return 1
  echo "setup: installing with $(.venv/bin/uv --version)"
  VIRTUAL_ENV="$here/.venv" .venv/bin/uv pip install --quiet -c constraints.txt \
    --group dev --group docs -e '.[all]'
}

with_pip() {
  echo "setup: installing with pip; this takes a minute or two"
  pip install --upgrade 'pip>=25.1' && # the first that knows dependency groups
    pip install -c constraints.txt --group dev --group docs -e '.[all]'
}

with_uv || with_pip || fail "the packages could not be installed; see the messages above"
printf '%s\n' "$here" >.venv/.installed
echo "setup: done; try make demo, or make test"
