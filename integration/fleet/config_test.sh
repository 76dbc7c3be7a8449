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
# refused SERVICE LINE EXPECTED: the example with one more line ends with 3 and names what is wrong.
refused() {
  local code=0
  { cat "$work/$1.yaml" && echo "$2"; } >"$work/wrong.yaml"
  "services/$1/$1_main" --config "$work/wrong.yaml" --check-config >"$work/out" 2>&1 || code=$?
  [[ "$code" == 3 ]] || fail "$1: '$2' ended with $code"
  grep -qF "$3" "$work/out" || fail "$1: '$2': $(cat "$work/out")"
}
refused credentials 'policy_valid: 9s' 'policy_valid: is 9s; expected 10s to 1h'
refused credentials 'policy_valid: 61min' 'policy_valid'
refused node_agent 'log_limit: 1023Ki' 'log_limit: is 1047552 bytes; expected 1048576 to 1099511627776'
refused node_agent 'log_limit: 0' 'log_limit: is 0 bytes; expected'
refused node_agent 'log_limit: 2Ti' 'log_limit: is'
refused node_agent 'mig_gpus: [{index: 0, model: H100}]' 'mig_gpus[0].model: accelerator model: found "H100"; expected one of'
refused node_agent 'accelerators: {mig/h100-80gb: 8}' 'accelerators[mig/h100-80gb]: memory slices come with GPUs'
refused scheduler 'max_waiting_events: 9' 'max_waiting_events: is 9; expected 10 to 10000000'
refused scheduler 'demand: {hold_for: 25h}' 'demand.hold_for: is 25h; expected 0 to 24h'
refused scheduler 'max_waiting_events: -1' 'max_waiting_events: is -1; expected'
refused scheduler 'flight_recorder: {max_bytes: 1}' 'flight_recorder.max_bytes: is 1; expected 4194304 to 1099511627776'

[[ ! -e /var/lib/capstan ]] || fail "something was started"
echo "all examples are right"
