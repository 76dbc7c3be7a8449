#!/bin/bash
# Runs every benchmark of a program for as short as the library allows: they must work, not be fast.
set -euo pipefail

exec "./$1" --benchmark_min_time=0.0001 --benchmark_repetitions=1
