#!/bin/sh
# A sweep as tasks of HyperQueue, whose server and workers run: a line of `parts.txt` is a task, and
# has a hundred points.
set -eu
doorbell sweep mlx5-full-rate --over traffic.size=64..1500:4 --over traffic.burst=1..8 --plan |
    split --lines=100 --numeric-suffixes --suffix-length=4 --additional-suffix=.ndjson - part-
ls part-*.ndjson >parts.txt
# HyperQueue's shell knows what the task's line is.
# shellcheck disable=SC2016
hq submit --wait --each-line parts.txt --cpus 1 -- \
    sh -c 'doorbell point "$HQ_ENTRY" --jobs 1 --cache kept --quiet --out "$HQ_ENTRY.parquet"'
