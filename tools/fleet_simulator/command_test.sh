#!/bin/bash
# The program as a user runs it: the example of its help, paths from where he is, wrong input.
set -euo pipefail

SIMULATOR="$PWD/tools/fleet_simulator/fleet_simulator"
cd "$TEST_TMPDIR"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# Runs it; its exit code must be the first argument, and the second a part of what it says.
expect() {
  local code="$1" text="$2" got=0
  shift 2
  "$SIMULATOR" "$@" >out 2>&1 || got=$?
  [[ "$got" == "$code" ]] || fail "$*: exit code $got instead of $code: $(cat out)"
  grep -qF -- "$text" out || fail "$*: expected '$text', found: $(cat out)"
}

expect 0 "Example: fleet_simulator" --help
example="$("$SIMULATOR" --help | sed -n 's/^Example: fleet_simulator //p')"
[[ -n "$example" ]] || fail "the help has no example"
# The same options, with sizes for a test.
example="$(sed -E 's/--seeds [0-9]+/--seeds 2/; s/--days [0-9]+/--days 1/
  s/--nodes [0-9]+/--nodes 4/; s/--plots [^ ]+/--plots plots/' <<<"$example")"
read -ra options <<<"$example"
expect 0 "utilisation" "${options[@]}"
[[ -s plots/waits.svg ]] || fail "no plot was drawn"

# As `bazel run` starts it: elsewhere, with the user's folder in its environment.
mkdir -p here
printf 'submit_s,tasks,gpus_per_task,runtime_s\n0,1,8,600\n' >here/jobs.csv
export BUILD_WORKING_DIRECTORY="$TEST_TMPDIR/here"
expect 0 '"measure":"utilisation"' --trace jobs.csv --json --policies all
unset BUILD_WORKING_DIRECTORY

expect 2 "No such file or directory" --trace absent.csv
expect 2 "expected some of all" --policies fastest
expect 2 "--seeds" --seeds 0
expect 2 "--load" --load much
echo "passed"
