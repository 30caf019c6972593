#!/bin/sh
# A sweep as a job array of Slurm: `sbatch --wait slurm.sh`, in a directory that all nodes see. A
# task that failed or ran out of time is started again alone, with `sbatch --array=7 slurm.sh`, and
# goes on with the points that `kept` has not.
#SBATCH --array=1-16 --cpus-per-task=1 --output=part-%a.log
set -eu
doorbell sweep mlx5-full-rate --over traffic.size=64..1500:4 --over traffic.burst=1..8 \
    --shard "$SLURM_ARRAY_TASK_ID/16" --jobs 1 --cache kept --quiet \
    --out "part-$SLURM_ARRAY_TASK_ID.parquet"
