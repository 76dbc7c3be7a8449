#!/bin/bash
# Every gate beside the tests: format, lints, layering, edges, clang-tidy, sanitizers. Prints a line a
# gate, the findings of those that fail, and at the end `N passed, N failed`, in which each sanitizer
# test counts by itself.
#
# usage: check.sh [--within SECONDS] [gate...], by default all of them
#
# --within: what compiles the tree is ended when the time is over; what was not come to by then is
# named and counts neither way, and what had failed by then has failed.
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
BAZEL="${CAPSTAN_BAZEL:-/usr/bin/bazel}"
# Long enough for what one has to fix first, short enough to find the next gate.
MAX_LINES=200

WORK="$(mktemp -d)"
trap 'rm -rf "$WORK"' EXIT

passed=0
failed=0
within=0
if [[ "${1:-}" == --within ]]; then
  within="${2:-}"
  [[ "$within" =~ ^[1-9][0-9]*$ ]] || {
    echo "--within: expected a number of seconds above 0, found '$within'" >&2
    exit 2
  }
  shift 2
fi
# What `timeout` ends with when it has sent the signal.
TIME_OVER=124

# A build or test, ended in order at the time that --within sets.
bounded() {
  if ((within == 0)); then
    "$BAZEL" "$@"
  elif ((SECONDS >= within)); then
    return "$TIME_OVER"
  else
    timeout --signal=INT "$((within - SECONDS))" "$BAZEL" "$@"
  fi
}

files() {
  git ls-files -z --cached --others --exclude-standard -- "$@" |
    while IFS= read -r -d '' file; do
      # A file deleted but not yet committed is still listed.
      if [[ -f "$file" ]]; then printf '%s\0' "$file"; fi
    done
}

gate_format() {
  files '*.cc' '*.h' '*.proto' | xargs -0 -r clang-format-19 --dry-run -Werror 2>"$WORK/format" &&
    return 0
  sed -nE 's/^([^ ]+):[0-9]+:[0-9]+: error: .*/\1/p' "$WORK/format" | sort | uniq -c
  echo "./dev fmt puts it right"
  return 1
}

gate_shellcheck() {
  {
    files '*.sh'
    # Scripts without an ending, by their first line.
    files | grep -zvE '\.[A-Za-z0-9_]+$' |
      while IFS= read -r -d '' file; do
        if head -n 1 "$file" | grep -qaE '^#!.*\b(ba)?sh\b'; then printf '%s\0' "$file"; fi
      done
  } | xargs -0 -r shellcheck
}

gate_forbidden_calls() {
  python3 -B tools/lint/forbidden_calls.py
}

# Every overlay's version is checked by a test, every package is installed by setup.
gate_third_party() {
  local metadata package status=0
  for metadata in third_party/*/METADATA.textproto; do
    if ! grep -qF "\"//${metadata%/*}:METADATA.textproto\"" third_party/BUILD; then
      echo "$metadata: not among the data of //third_party:versions_test"
      status=1
    fi
    package="$(sed -n 's/^package: "\(.*\)"$/\1/p' "$metadata")"
    if ! grep -qxF "$package" tools/setup/packages.txt; then
      echo "$metadata: $package is not in tools/setup/packages.txt"
      status=1
    fi
  done
  return "$status"
}

# Messages that leave a process or are stored only grow. Debian's Python, which has protobuf.
gate_contract() {
  /usr/bin/python3 -B tools/lint/contract.py --check
}

# Alert rules and dashboards name metrics that there are; every alert is tested and documented.
gate_monitoring() {
  python3 -B tools/lint/monitoring.py
}

# These documents follow the code: the files that they name must be there.
gate_docs() {
  local document file status=0
  for document in docs/life_of_a_job.md docs/reliability.md docs/security.md; do
    # shellcheck disable=SC2016  # the backticks are Markdown's
    while IFS= read -r file; do
      if [[ ! -e "$file" ]]; then
        echo "$document names $file, which is not there"
        status=1
      fi
    done < <(grep -oE '`(libs|services|tools|integration|examples|docs)/[A-Za-z0-9_/.-]+\.(cc|h|yaml|py|md)`' \
      "$document" | tr -d '`' | sort -u)
  done
  return "$status"
}

gate_edges() {
  if ! "$BAZEL" query --output=xml 'kind(rule, //...)' >"$WORK/query.xml" 2>"$WORK/query.log"; then
    cat "$WORK/query.log"
    return 1
  fi
  python3 -B tools/lint/edges.py "$WORK/query.xml"
}

# Compiles our own sources with clang, without generated code (all of it has -w) and without linking:
# headers and annotations are checked by the compiler alone.
gate_layering() {
  local ours="kind('cc_(library|binary|test) rule', //...) except attr(copts, '^\[-w\]$', //...)"
  if ! "$BAZEL" query "$ours" >"$WORK/targets" 2>"$WORK/query.log"; then
    cat "$WORK/query.log"
    return 1
  fi
  local status=0
  bounded build --keep_going --config=clang --output_groups=compilation_outputs \
    --target_pattern_file="$WORK/targets" || status=$?
  # What was found before the time was over stays found.
  if ((status == TIME_OVER)) && grep -qE ': (fatal )?error: ' "$WORK/log"; then return 1; fi
  return "$status"
}

gate_clang_tidy() {
  local status=0
  bounded build --keep_going --config=tidy //... >"$WORK/tidy.log" 2>&1 || status=$?
  ((status == 0)) && return 0
  # A header's finding comes once for each file that includes it.
  grep -E '^[^ ]+:[0-9]+:[0-9]+: (error|warning): ' "$WORK/tidy.log" |
    sed -E 's|^([^ ]*/execroot/capstan/)?(\./)?||' |
    sort -u | tee "$WORK/findings"
  if ((status == TIME_OVER)) && [[ ! -s "$WORK/findings" ]]; then return "$TIME_OVER"; fi
  [[ -s "$WORK/findings" ]] || cat "$WORK/tidy.log"
  return 1
}

run_gate() {
  local gate="$1" start="$SECONDS" status=0
  "gate_$gate" >"$WORK/log" 2>&1 </dev/null || status=$?
  if ((status == 0)); then
    passed=$((passed + 1))
    echo "PASS $gate ($((SECONDS - start)) s)"
  elif ((status == TIME_OVER)); then
    echo "not run to the end: $gate (the time was over after $((SECONDS - start)) s)"
  else
    failed=$((failed + 1))
    head -n "$MAX_LINES" "$WORK/log"
    echo "FAIL $gate ($((SECONDS - start)) s)"
  fi
}

# Runs the tests tagged with a sanitizer's name under it.
run_sanitizer() {
  local name="$1" status=0 start="$SECONDS" line time_over=()
  bounded test --keep_going --config="$name" --test_tag_filters="$name" --build_tests_only \
    --build_event_json_file="$WORK/events.json" //... >"$WORK/log" 2>&1 </dev/null || status=$?
  if ((status == 4)); then
    echo "not run: $name (no test is tagged $name)"
    return
  fi
  if ((status == TIME_OVER)); then
    # `timeout` hides what Bazel ended with, which is then that it was interrupted.
    status=8
    time_over=(--time-over)
  elif ((status != 0)); then
    head -n "$MAX_LINES" "$WORK/log"
  fi
  python3 -B tools/dev/test_summary.py "$WORK/events.json" --exit-code "$status" \
    "${time_over[@]}" >"$WORK/summary"
  grep -v -E '^[0-9]+ passed, [0-9]+ failed$' "$WORK/summary"
  line="$(tail -n 1 "$WORK/summary")"
  if [[ "$line" =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
    passed=$((passed + BASH_REMATCH[1]))
    failed=$((failed + BASH_REMATCH[2]))
  else
    failed=$((failed + 1))
    line="no summary"
  fi
  echo "$name: $line ($((SECONDS - start)) s)"
}

# The quick ones first: what they find is what one wants to know before waiting.
ALL=(format shellcheck forbidden_calls third_party docs contract monitoring edges layering clang_tidy tsan asan)
(($# > 0)) || set -- "${ALL[@]}"
for gate in "$@"; do
  case "$gate" in
    asan | tsan) run_sanitizer "$gate" ;;
    *)
      if ! declare -F "gate_$gate" >/dev/null; then
        echo "no such gate: $gate; there are: ${ALL[*]}" >&2
        exit 2
      fi
      run_gate "$gate"
      ;;
  esac
done

echo "$passed passed, $failed failed"
((failed == 0))
