#!/bin/sh
# Writes constraints.txt anew: one pin for every package that development needs, for all platforms.
# usage: scripts/constraints.sh [--upgrade]     (`make constraints` calls it with --upgrade)
set -eu

new=$(mktemp)
trap 'rm -f "$new"' EXIT
[ ! -e constraints.txt ] || cp constraints.txt "$new" # pins that still fit are kept, unless --upgrade is given
# All extras but daft, which would bring an older PyArrow for everyone.
printf 'hatchling\nuv\n' | .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate \
  --extra all --extra iceberg --extra s3 --extra azure --extra gcs --group dev --group docs "$@" --output-file "$new" pyproject.toml -
{
  echo "# Versions that the project is developed and tested with. Renew them with: make constraints"
  cat "$new"
} >constraints.txt
