"""Sweeps on a Dask cluster of this machine. Nothing here asserts a time."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

import doorbell

pytestmark = pytest.mark.frames

OVER = {"traffic.burst": range(1, 41), "driver.mpwqe": [False, True]}
SHORT = {"traffic.packets": 480}


@pytest.fixture(scope="module")
def cluster():
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    from distributed import Client

    with Client(cluster) as client:
        client.wait_for_workers(2)
        yield client


def sweep(client, out, **more):
    return doorbell.sweep("mlx5-pktgen-64", OVER, set=SHORT, client=client, out=out, **more)


def csv(frame):
    return frame.to_csv(index=False)


@pytest.fixture(scope="module")
def whole():
    return csv(doorbell.sweep("mlx5-pktgen-64", OVER, set=SHORT).table.to_pandas())


def test_a_cluster_gives_the_rows_of_one_process(client, tmp_path, whole):
    frame = sweep(client, tmp_path / "out", chunk=7)
    assert csv(frame.compute()) == whole
    files = sorted(p.name for p in (tmp_path / "out").iterdir())
    assert len(files) == 1 + 12 and files[0] == "_doorbell.json"
    # Again: all files are there. The size of a chunk is that of then.
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").iterdir()}
    assert csv(sweep(client, tmp_path / "out", chunk=30).compute()) == whole
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "out").iterdir()} == before
    with pytest.raises(doorbell.InputError, match="points of another sweep"):
        doorbell.sweep("mlx5-pktgen-64", OVER, client=client, out=tmp_path / "out")


def test_a_chunk_is_a_second_of_work_unless_told(client, tmp_path, whole):
    assert csv(sweep(client, tmp_path / "out").compute()) == whole


def test_a_killed_worker_loses_nothing(client, tmp_path, whole):
    nanny = next(iter(client.cluster.workers.values()))
    killed, out = nanny.pid, tmp_path / "out"

    def kill():
        while len(list(out.glob("part-*"))) < 3:
            time.sleep(0.005)
        os.kill(killed, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    assert csv(sweep(client, out, chunk=2).compute()) == whole
    thread.join()
    assert nanny.pid != killed


def test_a_killed_client_goes_on_where_it_was(client, tmp_path, whole):
    script = f"""
from distributed import Client
import doorbell
client = Client({client.scheduler.address!r})
doorbell.sweep("mlx5-pktgen-64", {{"traffic.burst": range(1, 41), "driver.mpwqe": [False, True]}},
    set={SHORT!r}, client=client, out="out", chunk=2)
"""
    child = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path)
    out = tmp_path / "out"
    while len(list(out.glob("part-*"))) < 3:
        assert child.poll() is None
        time.sleep(0.005)
    child.kill()
    child.wait()
    begun = {p: p.stat().st_mtime_ns for p in out.glob("part-*")}
    assert 3 <= len(begun) < 40
    assert csv(sweep(client, out).compute()) == whole
    assert {p: p.stat().st_mtime_ns for p in begun} == begun
    assert len(list(out.glob("part-*"))) == 40


def test_a_worker_without_the_package_is_told(tmp_path):
    from distributed import Client, LocalCluster

    # Another Python, which has the libraries alone.
    base = pathlib.Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
    with LocalCluster(n_workers=0, dashboard_address=":0") as cluster, Client(cluster) as client:
        worker = subprocess.Popen(
            [
                base,
                "-m",
                "distributed.cli.dask_worker",
                cluster.scheduler_address,
                "--no-dashboard",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=tmp_path,
        )
        try:
            client.wait_for_workers(1)
            with pytest.raises(doorbell.InputError, match="a worker lacks the package"):
                sweep(client, tmp_path / "out")
        finally:
            worker.terminate()
            worker.wait()
    assert not (tmp_path / "out").exists()


def test_a_mistake_is_told_before_anything_is_sent(client, tmp_path):
    with pytest.raises(doorbell.InputError, match="allowed: 128"):
        doorbell.sweep("mlx5-pktgen-64", {"pcie.mps": [3]}, client=client, out=tmp_path / "out")
    with pytest.raises(TypeError, match="`out` is required"):
        doorbell.sweep("mlx5-pktgen-64", OVER, client=client)
    assert not list(tmp_path.iterdir())


def test_the_example_runs(tmp_path):
    example = pathlib.Path(__file__).parents[3] / "examples" / "points" / "dask_sweep.py"
    told = subprocess.run(
        [sys.executable, example], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert {"trains", "dim"} <= set(told.stdout.split()), told.stdout
    assert list((tmp_path / "random-loads").glob("part-*.parquet"))
