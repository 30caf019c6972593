"""Sweeps on a Dask cluster: chunks of points as pure tasks, and a Parquet dataset as the result.

A task is a chunk of the lines of `plan`, under a key that is the hash of its points' keys. It
returns a Parquet file, and the client writes it as it comes, whole, under a name that has that
hash. So a worker that is lost costs the chunk that it ran, and a client that is lost costs the
chunks under way: the same call goes on from the files that are there. The client makes no table,
since what it does for a chunk limits how many cores it keeps busy.
"""

import ctypes
import hashlib
import importlib.metadata
import io
import json
import os
import pathlib
import tempfile
import time
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _commands
from ._errors import InputError

if TYPE_CHECKING:
    from distributed import Client

# The file that tells what a dataset is of.
ABOUT = "_doorbell.json"
# The least work of a task, in s: the scheduler takes about 0.2 ms for each.
LEAST = 1.0
# Tasks a second that client and scheduler see to on one machine, measured.
RATE = 200


def _hash(keys: Sequence[str]) -> str:
    return hashlib.sha256("".join(keys).encode()).hexdigest()[:32]


def _size(points: Sequence[str], cores: int) -> int:
    """Returns how many points are a second of work for one core, by running some of them, or some
    more, so that equal cores end together. Of many cores each gets more, for tasks not to come
    faster than they are seen to."""
    # The first run has costs of its own.
    _commands.point(points[:1], jobs=1)
    # Points at equal distances: the first ones of a sweep may be the smallest.
    n = 1
    while n < len(points):
        some = points[:: len(points) // n][:n]
        # Of the processor, so that a busy machine does not make chunks small.
        began = time.process_time()
        _commands.point(some, jobs=1)
        spent = time.process_time() - began
        # The workers wait meanwhile. Of points that take long, a few tell enough.
        if spent > LEAST / 4 or (spent > LEAST / 20 and n >= 8):
            size = max(1, round(n * max(LEAST, cores / RATE) / spent))
            chunks = len(points) // size // cores * cores
            return -(-len(points) // chunks) if chunks else size
        n *= 2
    return len(points)


# Parameters of mallopt(3), and the memory that a thread keeps, in bytes.
TRIM, MAP, KEPT = -1, -3, 32 << 20


def _keep_memory() -> None:
    """Lets the C library keep the memory of a point for the next one.

    Dask starts workers with MALLOC_TRIM_THRESHOLD_=65536, by which each point's pages would go back
    to the system and be cleared anew: half of the time that a point takes."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        # Not glibc.
        return
    mallopt(MAP, KEPT)
    mallopt(TRIM, 2 * KEPT)


def _chunk(lines: bytes, cache: str | None) -> bytes:
    import pyarrow.parquet

    _keep_memory()
    points = zlib.decompress(lines).decode().split("\n")
    file = io.BytesIO()
    pyarrow.parquet.write_table(_commands.point(points, cache=cache, jobs=1).table, file)
    return file.getvalue()


def _write(path: pathlib.Path, content: bytes) -> None:
    """Writes a file as a whole or not at all."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".doorbell-", delete=False) as file:
        made = pathlib.Path(file.name)
        try:
            file.write(content)
            file.flush()
            made.chmod(0o644)
            made.rename(path)
        except BaseException:
            made.unlink(missing_ok=True)
            raise


def _begun(about: pathlib.Path, whole: str) -> int:
    """Returns how many points a task of the sweep has that was begun."""
    if not about.is_file():
        raise InputError(str(about), "it is no regular file")
    try:
        begun = json.loads(about.read_text("utf-8"))
        points, size = begun["points"], begun["chunk"]
    except (ValueError, KeyError, TypeError, RecursionError):
        points, size = None, 0
    if type(size) is not int or size < 1:
        raise InputError(str(about), "it is damaged; remove it to begin the sweep again")
    if points != whole:
        raise InputError(str(about.parent), "it has the points of another sweep")
    return size


def _is_whole(path: pathlib.Path) -> bool:
    """Returns true for a Parquet file with its end. A machine that failed may have cut it short."""
    if not path.is_file() or path.stat().st_size < 12:
        return False
    with path.open("rb") as file:
        file.seek(-4, os.SEEK_END)
        return file.read() == b"PAR1"


def _version() -> str:
    from . import __version__

    return __version__


def _check(client: "Client") -> None:
    """Refuses workers without this version of the package, of this commit."""
    own = _version()
    try:
        client.run(importlib.metadata.version, "doorbell")
    except importlib.metadata.PackageNotFoundError:
        raise InputError("client", "a worker lacks the package doorbell") from None
    found = client.run(_version)
    for worker, version in found.items():
        if version != own:
            raise InputError(worker, f"the worker has doorbell {version}, the client {own}")


def distribute(
    client: "Client",
    points: Sequence[str],
    out: str | os.PathLike[str],
    cache: str | None,
    chunk: int | None,
) -> Any:
    """Runs points on a cluster. Returns a lazy frame of the dataset in `out`."""
    import dask.dataframe
    from distributed import as_completed

    _check(client)
    # Workers load the package while the client sees to the points.
    loads = [client.submit(_keep_memory, workers=[w], pure=False) for w in client.nthreads()]
    directory = pathlib.Path(out)
    directory.mkdir(parents=True, exist_ok=True)
    keys = [json.loads(line)["key"] for line in points]
    whole, about = _hash(keys), directory / ABOUT
    if about.exists():
        size = _begun(about, whole)
    else:
        size = chunk or _size(points, sum(client.nthreads().values()))
        _write(about, json.dumps({"points": whole, "chunk": size}).encode())
    starts = range(0, len(points), size)
    names = [
        directory / f"part-{n:06}-{_hash(keys[start : start + size])}.parquet"
        for n, start in enumerate(starts)
    ]
    futures = {
        client.submit(
            _chunk,
            zlib.compress("\n".join(points[start : start + size]).encode(), level=1),
            cache,
            key=f"doorbell-{name.stem}",
        ): name
        for name, start in zip(names, starts)
        if not _is_whole(name)
    }
    try:
        for future, content in as_completed(futures, with_results=True):
            _write(futures[future], content)
            future.release()
    finally:
        client.cancel([*loads, *futures])
    return dask.dataframe.read_parquet([str(name) for name in names])
