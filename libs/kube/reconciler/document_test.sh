#!/bin/bash
# The C++ of a document is what compiled tests have between their marks, in the same order.
# usage: document_test.sh DOCUMENT SOURCE...
set -euo pipefail

DOCUMENT="$1"
shift
shown="$(awk '/^```cpp$/ {on = 1; next} /^```$/ {if (on) print "--"; on = 0} on' "$DOCUMENT")"
compiled="$(awk '/^ *\/\/ \[doc\]$/ {on = 1; match($0, /^ */); indent = RLENGTH; next}
                 /^ *\/\/ \[\/doc\]$/ {print "--"; on = 0}
                 on {print substr($0, indent + 1)}' "$@")"
[[ -n "$compiled" ]] || { echo "$* have no marks"; exit 1; }
if ! diff <(printf '%s\n' "$compiled") <(printf '%s\n' "$shown"); then
  echo "the C++ of $DOCUMENT (>) is not that of $* (<); copy what is between the marks"
  exit 1
fi
