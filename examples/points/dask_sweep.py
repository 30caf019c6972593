"""Runs a sweep on a Dask cluster: on this machine, or over SSH.

    python dask_sweep.py                     # a process for each core of this machine
    python dask_sweep.py HOST [HOST]...      # the scheduler on the first, workers on all hosts

SSH needs asyncssh here, keys instead of passwords, and the same Python with doorbell on each host.
"""

import sys

import doorbell
from distributed import Client, LocalCluster, SSHCluster


def main(hosts):
    if hosts:
        # A worker has a thread for each core of its host; points run beside each other in these.
        cluster = SSHCluster(
            [hosts[0], *hosts], scheduler_options={"port": 0, "dashboard_address": ":0"}
        )
    else:
        cluster = LocalCluster(threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster) as client:
        frame = doorbell.sweep(
            "axienet-random",
            over={"run.seed": range(1, 401), "driver.controller": ["trains", "dim"]},
            client=client,
            out="random-loads",
        )
        print(frame.groupby("driver.controller")["latency_ns.p99"].median().compute())


if __name__ == "__main__":
    main(sys.argv[1:])
