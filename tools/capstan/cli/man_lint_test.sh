#!/bin/bash
# The manual that `capstan man` writes has a page for each command, and neither groff nor mandoc has
# anything to say against one.
#
# usage: man_lint_test.sh CAPSTAN
set -uo pipefail

capstan="$(realpath "$1")"
export HOME="$TEST_TMPDIR"
pages="$TEST_TMPDIR/man"
for tool in groff mandoc; do
  if ! command -v "$tool" >/dev/null; then
    echo "$tool is not there; ./dev setup installs it"
    exit 1
  fi
done
"$capstan" man --dir "$pages" || exit 1

failures=0
for page in capstan.1 capstan-job-list.1 capstan-access-can-i.1 capstan-dev-up.1; do
  if [[ ! -s "$pages/$page" ]]; then
    echo "$page is not there"
    failures=$((failures + 1))
  fi
done
for page in "$pages"/*.1; do
  found="$(mandoc -Tlint -Wwarning "$page" 2>&1
    groff -man -Tutf8 -ww -z "$page" 2>&1)"
  if [[ -n "$found" ]]; then
    printf '%s\n' "$found"
    failures=$((failures + 1))
  fi
done
((failures == 0)) && echo "$(find "$pages" -name '*.1' | wc -l) pages, nothing against them"
exit "$((failures > 0))"
