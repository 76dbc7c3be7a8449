#!/bin/bash
# Every example of a configuration is right as it stands, but for files that only its machine has;
# and what is wrong is named with its line, nothing being started.
set -euo pipefail

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

for service in credentials scheduler executor node_agent data_loader telemetry cluster_manager; do
  program="services/$service/${service}_main"
  # The files of etcd's certificates are the only ones that must be there.
  sed -E "s#/etc/capstan/etcd/.*#/etc/passwd#" "infra/examples/$service.yaml" >"$work/$service.yaml"
  "$program" --config "$work/$service.yaml" --check-config >"$work/out" 2>&1 ||
    fail "$service: $(cat "$work/out")"
  [[ "$(cat "$work/out")" == "$work/$service.yaml: OK" ]] || fail "$service: $(cat "$work/out")"

  code=0
  sed -E 's#metrics_listen: .*#metrics_listen: nowhere#' "$work/$service.yaml" >"$work/wrong.yaml"
  "$program" --config "$work/wrong.yaml" >"$work/out" 2>&1 || code=$?
  line="$(grep -n nowhere "$work/wrong.yaml" | cut -d: -f1)"
  [[ "$code" == 3 ]] || fail "$service: a wrong file ended with $code"
  grep -q "wrong.yaml:$line:[0-9]*: process.metrics_listen: is 'nowhere'; expected" "$work/out" ||
    fail "$service: $(cat "$work/out")"

  code=0
  echo "proces: {}" >"$work/wrong.yaml"
  "$program" --config "$work/wrong.yaml" --check-config >"$work/out" 2>&1 || code=$?
  [[ "$code" == 3 ]] || fail "$service: an unknown field ended with $code"
  grep -q "wrong.yaml:1:1: .*process" "$work/out" || fail "$service: $(cat "$work/out")"

  code=0
  "$program" >"$work/out" 2>&1 || code=$?
  [[ "$code" == 2 ]] || fail "$service: without a file it ended with $code"
  "$program" --help | grep -q -- "Example: ${service}_main --config" || fail "$service: no example"
done
[[ ! -e /var/lib/capstan ]] || fail "something was started"
echo "all examples are right"
