"""Sweeps on a Dask cluster of this machine. Nothing here asserts a time."""

import asyncio
import os
import pathlib
import resource
import signal
import subprocess
import sys
import threading
import time

import pytest

import doorbell
from doorbell import _dask

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


@pytest.mark.parametrize(
    "points, cores, size",
    # The last three: fewer chunks than cores, too few points to tell, and five seconds for a
    # thousand cores.
    [(1000, 1, 100), (1000, 3, 112), (1000, 4, 125), (1099, 10, 110), (1000, 20, 100), (8, 2, 8)]
    + [(1_000_000, 1000, 500)],
)
def test_chunks_are_a_second_or_a_little_more_for_all_cores(monkeypatch, points, cores, size):
    spent = [0.0]

    def point(points, jobs):
        spent[0] += 0.01 * len(points)

    monkeypatch.setattr(_dask._commands, "point", point)
    monkeypatch.setattr(_dask.time, "process_time", lambda: spent[0])
    assert _dask._size(["a point"] * points, cores) == size


def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def test_workers_keep_the_memory_of_a_point(client, tmp_path):
    def per_point(n):
        over = {"run.seed": range(1, n + 1)}
        before = sum(client.run(faults).values())
        long = {"traffic.packets": 48_000}
        out = tmp_path / str(n)
        doorbell.sweep("mlx5-pktgen-64", over, set=long, client=client, out=out, chunk=n // 2)
        return (sum(client.run(faults).values()) - before) / n

    per_point(20)
    # 3,400 pages, if they went back to the system each time.
    assert per_point(80) < 700


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
            client.wait_for_workers(1, timeout=120)
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


def test_a_capture_is_found_by_workers_elsewhere(client, tmp_path, monkeypatch):
    from scapy.all import Ether, wrpcap

    # The workers were started in another directory.
    monkeypatch.chdir(tmp_path)
    wrpcap("wire.pcap", [Ether() / bytes(100)])
    over = {"traffic.rounds": [1, 2, 3]}
    here = {"capture": "wire.pcap", "client": client, "chunk": 1}
    frame = doorbell.sweep("mlx5-replay", over, out="out", cache="kept", **here)
    assert len(frame.compute()) == 3 and sorted(os.listdir()) == ["kept", "out", "wire.pcap"]


def test_a_capture_that_workers_lack_is_told(client, tmp_path, monkeypatch):
    from scapy.all import Ether, wrpcap

    file = tmp_path / "wire.pcap"
    wrpcap(str(file), [Ether() / bytes(100)])
    distribute = doorbell._dask.distribute

    def without(*args):
        file.unlink()
        return distribute(*args)

    monkeypatch.setattr(doorbell._dask, "distribute", without)
    with pytest.raises(doorbell.InputError, match=f"{file}: No such file"):
        doorbell.sweep(
            "mlx5-replay",
            {"traffic.rounds": [1, 2]},
            capture=file,
            client=client,
            out=tmp_path / "out",
            chunk=1,
        )
    assert os.listdir(tmp_path / "out") == ["_doorbell.json"]


def run_example(where, *hosts, **environment):
    example = pathlib.Path(__file__).parents[3] / "examples" / "points" / "dask_sweep.py"
    told = subprocess.run(
        [sys.executable, example, *hosts],
        cwd=where,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stderr
    assert {"trains", "dim"} <= set(told.stdout.split()), told.stdout
    assert list((where / "random-loads").glob("part-*.parquet"))


def test_the_example_runs(tmp_path):
    run_example(tmp_path)


async def serve_ssh(ssh):
    """Runs the commands of who has the key in `ssh`, on a free port of the loopback interface."""
    import asyncssh

    async def copy(source, to):
        while part := await source.read(4096):
            to.write(part)

    async def run(process):
        child = await asyncio.create_subprocess_shell(
            f"exec {process.command}",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            # The channel ends with the exit, and the connection if more is written then.
            await asyncio.gather(
                copy(child.stdout, process.stdout), copy(child.stderr, process.stderr)
            )
            process.exit(await child.wait())
        finally:
            # A cluster that closes its connection means the end of what it started.
            if child.returncode is None:
                child.terminate()
                await child.wait()

    for key in ("host", "user"):
        made = asyncssh.generate_private_key("ssh-ed25519")
        made.write_private_key(ssh / key)
        made.write_public_key(ssh / f"{key}.pub")
    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[ssh / "host"],
        authorized_client_keys=str(ssh / "user.pub"),
        process_factory=run,
        encoding=None,
    )
    port = server.get_port()
    (ssh / "known_hosts").write_text(f"[127.0.0.1]:{port} {(ssh / 'host.pub').read_text()}")
    (ssh / "config").write_text(
        f"Host here\nHostname 127.0.0.1\nPort {port}\nIdentityFile {ssh}/user\n"
        f"UserKnownHostsFile {ssh}/known_hosts\n"
    )
    return server


async def end(server):
    """Ends the server, and what it still runs."""
    server.close()
    await server.wait_closed()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


@pytest.fixture
def home(tmp_path):
    """The home directory of a user who reaches this machine by SSH under the name `here`."""
    ssh = tmp_path / "home" / ".ssh"
    ssh.mkdir(parents=True, mode=0o700)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(serve_ssh(ssh), loop).result()
    yield ssh.parent
    asyncio.run_coroutine_threadsafe(end(server), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_the_example_runs_over_ssh(tmp_path, home):
    run_example(tmp_path, "here", HOME=str(home))
