#!/bin/bash
# Rules and configuration as Prometheus' own tool sees them. usage: alerts_test.sh PROMTOOL
set -euo pipefail

promtool="$PWD/$1"
cd infra/monitoring
"$promtool" check config prometheus.yaml
"$promtool" check rules --lint=all --lint-fatal alerts.yaml
"$promtool" test rules alerts_test.yaml
