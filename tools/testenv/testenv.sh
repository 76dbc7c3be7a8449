#!/usr/bin/env bash
# `bazel run //tools/testenv -- up kafka`: what `./dev testenv` does. Bazel runs it in the runfiles' root.
exec python3 -B tools/testenv/testenv.py "$@"
