#!/bin/bash
# The program that people run holds no trace of what looks for a plan; the one for tests does.
set -euo pipefail

shipped="$1"
armed="$2"
marker="crash_points"

if grep -q "$marker" "$shipped"; then
  echo "$shipped looks for a plan of crashes" >&2
  exit 1
fi
grep -q "$marker" "$armed" || {
  echo "$armed does not look for a plan of crashes: nothing of this suite means anything" >&2
  exit 1
}
