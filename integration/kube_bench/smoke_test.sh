#!/bin/bash
# Every measurement of `./dev bench kube` works and prints its lines; how fast, nobody asks here.
set -euo pipefail

lines="$("$1" --smoke)"
printf '%s\n' "$lines"
for name in webhook_p99_ms.rate200 informer_rss_ratio_to_client_go \
  informer_cpu_ratio_to_client_go bind_cpu_ratio_to_client_go binds_per_s creates_per_s \
  event_cpu_ratio_to_client_go events_per_s reconnect_s reconnect_s.client_go; do
  if [[ "$(grep -cF "\"name\":\"kube.$name\"" <<<"$lines")" -ne 1 ]]; then
    echo "there is not one line for kube.$name" >&2
    exit 1
  fi
done
