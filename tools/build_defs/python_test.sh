#!/bin/bash
# Runs a unittest file. py_test would bring a Python toolchain with it; python3 is enough here.
set -euo pipefail

exec python3 -B "$@"
