#!/bin/bash
# What a person gets for wrong input where no platform is needed: the exit code, and that the message
# names what was found and what to do.
#
# usage: wrong_input_test.sh CAPSTAN
set -uo pipefail

capstan="$(realpath "$1")"
cd "$TEST_TMPDIR" || exit 1
export HOME="$TEST_TMPDIR" CAPSTAN_DATA_DIR="$TEST_TMPDIR/none"
unset XDG_STATE_HOME CAPSTAN_PROJECT
failures=0

# expect CODE TEXT ARGUMENT...: runs capstan, whose output must hold TEXT.
expect() {
  local code="$1" text="$2" output rc
  shift 2
  output="$("$capstan" "$@" 2>&1 </dev/null)"
  rc=$?
  if ((rc != code)) || [[ "$output" != *"$text"* ]]; then
    printf 'capstan %s\n  expected exit code %s and: %s\n  found exit code %s and: %s\n' \
      "$*" "$code" "$text" "$rc" "$output"
    failures=$((failures + 1))
  fi
}

good='spec:
  task_groups:
    - name: w
      replicas: 1
      argv: [/bin/true]
      resources: {cpu: 250m, memory: 64Mi}
'
# file NAME PATTERN REPLACEMENT: the good file with a mistake.
file() { printf '%s' "${good/"$2"/"$3"}" >"$1"; }

file good.yaml '' ''
file field.yaml 'replicas' 'replcas'
file type.yaml 'replicas: 1' 'replicas: many'
file quantity.yaml '250m' '250q'
printf 'spec: [\n' >syntax.yaml
printf 'job_id: x\n' >nothing.yaml
printf 'alternatives:\n  - name: a\n    remov: [n]\n' >changes-field.yaml
printf 'alternatives:\n  - name: a\n    jobs: [field.yaml]\n' >changes-job.yaml
printf 'alternatives:\n  - name: a\n    jobs: [good.yaml]\n    add: [{count: 1, like: n}]\n' >changes.yaml

expect 2 'frobnicate' frobnicate
expect 2 '--frobnicate' job list --frobnicate
expect 2 'job is required' job get
expect 2 "found 'xml', expected one of table, wide, json" job list -o xml
expect 2 "at character 10 of \"{.items[*}\": found '}', expected ',' or ']'" job list -o 'jsonpath={.items[*}'
expect 2 'expected a path in braces' job list -o jsonpath=.items
expect 2 "'NAME', expected HEADER:path" job list -o custom-columns=NAME
expect 2 'column B: jsonpath: at character 4' job list -o 'custom-columns=A:.a,B:.b['
expect 2 "found '}'" job list --sort-by '.a}'
expect 2 'job is required' job hold
expect 2 'or none for no limit' job update x --time-limit 5q
expect 3 '--priority 5' job update x
expect 3 'absent-columns' job list -o custom-columns-file=absent-columns
expect 2 '5q' --time-out 5q job list
expect 3 'absent.yaml' job submit ./absent.yaml
platform="$(mktemp -d /tmp/capstan-wrong-input-XXXXXX)"
expect 3 'absent.yaml' --data-dir "$platform" dev up --detach --config ./absent.yaml
printf 'fencing: {suspect_after: 3s}\n' >platform.yaml
expect 3 'fencing.suspect_after: is 3s; expected 10s to 720h' --data-dir "$platform" dev up --detach --config platform.yaml
printf 'credentials: {policy_valid: 2h}\n' >platform.yaml
expect 3 'credentials.policy_valid: is 2h; expected 10s to 1h' --data-dir "$platform" dev up --detach --config platform.yaml
printf 'node_agent: {log_limit: 0}\n' >platform.yaml
expect 3 'node_agent.log_limit: is 0 bytes; expected 1048576 to 1099511627776' --data-dir "$platform" dev up --detach --config platform.yaml
printf 'scheduler: {max_waiting_events: 1}\n' >platform.yaml
expect 3 'scheduler.max_waiting_events: is 1; expected 10 to 10000000' --data-dir "$platform" dev up --detach --config platform.yaml
rm -rf "$platform"
expect 3 'syntax.yaml:' job submit syntax.yaml
expect 3 'field.yaml:4:7' job submit field.yaml
expect 3 'replcas' job submit field.yaml
expect 3 'type.yaml:4:' job submit type.yaml
expect 3 'many' job submit type.yaml
expect 3 'quantity.yaml:6:' job submit quantity.yaml
expect 3 '250q' job submit quantity.yaml
expect 3 'spec: is missing' job submit nothing.yaml
expect 3 'quantity.yaml:6:' job submit quantity.yaml --dry-run
expect 5 'capstan dev up' job submit good.yaml
expect 5 'capstan dev up' job submit good.yaml --dry-run
expect 2 'file is required' node simulate
expect 3 'absent.yaml' node simulate absent.yaml
expect 3 'changes-field.yaml:3:5' node simulate changes-field.yaml
expect 3 'field.yaml:4:7' node simulate changes-job.yaml
expect 5 'capstan dev up' node simulate changes.yaml
expect 0 ':files' __complete -- node simulate ''
expect 0 '--on-leader' node simulate --help
expect 5 'capstan dev up' job list
expect 5 'capstan dev up' job logs x -f
expect 3 'shorter --data-dir' --data-dir "/tmp/$(printf 'a%.0s' {1..120})" dev up --detach
expect 0 'Exit codes' help exit-codes
expect 0 'CAPSTAN_DATA_DIR' help environment
expect 0 'custom-columns' help output
expect 2 'shell is required' completion
expect 3 "found 'tcsh', expected one of bash, zsh, fish" completion tcsh
expect 2 '--dir is required' man
expect 3 'expected a folder' man --dir /proc/self/nothing
expect 0 'job' __complete -- jo
expect 0 ':none' __complete -- job get ''
expect 3 'expected a verb and a resource' access can-i create
expect 3 "found 'frobnicate', expected one of cancel, create, exec, get, list" access can-i frobnicate jobs
expect 3 'expected one of auditRecords' access can-i get unicorns
expect 0 'Needs the permission' subscription create --help
expect 2 'stream is required' subscription create nightly
expect 2 '--from' subscription create nightly digits --from tomorrow
expect 2 'Exactly 1 option from [--to,--oldest,--newest] is required' subscription seek nightly --oldest --newest
expect 2 'Exactly 1 option from [--to,--oldest,--newest] is required' subscription seek nightly
expect 2 'offset: Value 0 not in range' subscription commit nightly 0
expect 5 'capstan dev up' subscription read nightly
expect 3 'expected one of create, read' access can-i frobnicate subscriptions
expect 3 'expected either an identity or --serial' access deny
expect 3 'expected either an identity or --serial' access allow
expect 2 'excludes' audit verify --file audit.chain --print
expect 2 'trust-bundle requires --heads' audit verify --trust-bundle roots.pem
expect 3 'expected --trust-bundle with --heads' audit verify --heads heads.bin
expect 5 'capstan dev up' access whoami
expect 2 '--limit: Value 0 not in range 1 to 100000' audit list --limit 0
expect 0 'Examples' job submit --help

# A script must not take half an answer for a whole one.
lost="$("$capstan" completion bash 2>&1 >/dev/full)"
rc=$?
if ((rc != 7)) || [[ "$lost" != *'standard output takes no more'* ]]; then
  printf 'a full standard output: found exit code %s and: %s\n' "$rc" "$lost"
  failures=$((failures + 1))
fi

((failures == 0)) && echo "all as expected"
exit "$((failures > 0))"
