#!/bin/bash
# The interpreter that train.yaml names, not the first one in PATH: Debian's numpy belongs to it.
exec /usr/bin/python3 -B "$(dirname "$0")/train_test.py"
