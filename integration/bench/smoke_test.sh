#!/bin/bash
# Every measurement of `./dev bench platform` works and prints its lines; how fast, nobody asks here.
set -euo pipefail

bench="$1"
if [[ "$(id -u)" -ne 0 ]]; then
  echo "needs root, as platforms do: not run" >&2
  exit 0
fi
lines="$("$bench" --smoke)"
printf '%s\n' "$lines"
for name in rpc_p50_ratio_to_bare_grpc job_create_per_s.sqlite.clients1 \
  job_create_per_s.sqlite.clients64 job_create_per_s.etcd.clients1 job_create_per_s.etcd.clients64 \
  leader_take_over_s store_txn_per_s.sqlite.in_flight64 store_txn_per_s.etcd.in_flight64 \
  watch_events_per_s.watchers100 watch_delay_p99_ms.watchers100 publish_mb_per_s tail_mb_per_s \
  events_per_s \
  load_mb_per_s_ratio_to_cp load_objects_per_s.bytes4096 svid_issue_per_s.clients64 \
  jwt_issue_per_s.clients64 cli_list_ms start_ms idle_rss_mb.scheduler idle_cpu_percent.node_agent \
  submit_to_first_log_ms; do
  if [[ "$(grep -cF "\"name\":\"platform.$name\"" <<<"$lines")" -ne 1 ]]; then
    echo "there is not one line for platform.$name" >&2
    exit 1
  fi
done
# One object a line, and a value that is a number above or at nought.
if grep -vE '^\{"name":"platform\.[a-z0-9_.]+","value":[0-9][0-9.e+-]*,.*\}$' <<<"$lines" >&2; then
  echo "these are no figures" >&2
  exit 1
fi
