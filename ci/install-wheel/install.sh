#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What action.yml runs: nox from its lock, then `nox -s install`, then the step's outputs.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)

options=(--json --fallback "$FALLBACK" --sandbox "${SANDBOX:-auto}")
if [ -n "$PYTHON" ]; then
  options+=(--python "$PYTHON")
fi
while read -r address; do
  if [ -n "$address" ]; then
    options+=(--index "$address")
  fi
done <<< "$INDEX"
if [ "$REQUIRE_STATEMENT" = true ]; then
  options+=(--require-statement)
fi

# Not into the environment that the wheel is for: a folder of its own, where PATH doesn't lead.
tools="$RUNNER_TEMP/cuwheel-nox"
if [ ! -x "$tools/bin/nox" ]; then
  python3 -m venv "$tools"
  # What a runner sets for pip must not change where and what it installs.
  elsewhere=(-u PIP_TARGET -u PIP_PREFIX -u PIP_ROOT -u PIP_USER -u PIP_DRY_RUN -u PIP_CONSTRAINT)
  env "${elsewhere[@]}" -u PIP_NO_DEPS \
    "$tools/bin/python" -I -m pip install --quiet --require-hashes --requirement "$root/envs/nox.lock"
fi

answer=$("$tools/bin/nox" --noxfile "$root/noxfile.py" --session install -- "$TARGET" "${options[@]}")
echo "$answer"
python3 -c '
import json
import sys

done = json.loads(sys.argv[1].splitlines()[-1])["installed"]
for name, key in (("how", "how"), ("wheel", "what"), ("sha256", "sha256")):
    print(f"{name}={done[key]}")
' "$answer" >> "$GITHUB_OUTPUT"
