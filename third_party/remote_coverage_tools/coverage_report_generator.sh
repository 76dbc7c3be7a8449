#!/bin/sh
echo "coverage reports are not set up in this repository" >&2
exit 1
