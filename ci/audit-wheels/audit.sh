#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What action.yml runs: `audit` of this checkout, in the hash-locked environment of what only reads.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)

options=(--fail-on "$FAIL_ON")
while read -r pattern; do
  if [ -n "$pattern" ]; then
    options+=(--exclude "$pattern")
  fi
done <<< "$EXCLUDE"
while read -r wheel; do
  if [ -n "$wheel" ]; then
    options+=("$wheel")
  fi
done <<< "$WHEELS"

# From its own folder, so that no `cuwheel/` or `json.py` of the caller's repository is taken.
export PYTHONPATH="$root" CUWHEEL_INVOKED_FROM="$PWD"
audit=(python3 -m cuwheel.bootstrap report -m cuwheel audit "${options[@]}")
if [ -z "$JSON" ]; then
  cd "$root"
  exec "${audit[@]}"
fi
file=$(realpath -- "$JSON")
cd "$root"
status=0
"${audit[@]}" --json > "$file" || status=$?
cat "$file"
exit "$status"
