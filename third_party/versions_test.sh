#!/bin/bash
# Every METADATA.textproto among the data names a Debian package whose installed version has the same
# major and minor number.
set -euo pipefail

field() {
  sed -n "s/^$1: \"\(.*\)\"$/\1/p" "$2"
}

checked=0
failures=0
for metadata in third_party/*/METADATA.textproto; do
  for name in name homepage package version licence why; do
    if [[ -z "$(field "$name" "$metadata")" ]]; then
      echo "$metadata: no $name"
      failures=$((failures + 1))
    fi
  done
  package="$(field package "$metadata")"
  wanted="$(field version "$metadata" | cut -d. -f1,2)"
  full="$(dpkg-query -W -f='${Version}' "$package" 2>/dev/null || true)"
  # [epoch:]upstream[+repacked][-revision]
  installed="$(sed -e 's/^[0-9]*://' -e 's/-[^-]*$//' -e 's/+.*//' <<<"$full")"
  case "$installed." in
    "$wanted".*) ;;
    *)
      echo "$metadata: wants $wanted, but $package is ${full:-not installed}"
      failures=$((failures + 1))
      ;;
  esac
  checked=$((checked + 1))
done

((checked > 0)) || { echo "no METADATA files found" && exit 1; }
echo "$checked packages checked, $failures failures"
((failures == 0))
