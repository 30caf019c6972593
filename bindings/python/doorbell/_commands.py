"""The commands as functions."""

import json
import os
import pathlib
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from . import _dask
from ._errors import InputError, command, result
from ._files import Capture, Profile, Scenario, Value, arguments, named_file, text
from ._results import Advice, Comparison, Fit, Reproduction, Result, Sweep, read

if TYPE_CHECKING:
    from distributed import Client

Path = str | os.PathLike[str]
Settings = Mapping[str, Value]


def run(
    scenario: Path | Scenario,
    *,
    profile: Path | Profile | None = None,
    set: Settings | None = None,
    seed: int | None = None,
    capture: Capture | None = None,
    faults: Iterable[str] = (),
    limits: bool = True,
) -> Result:
    """Runs a scenario.

    Args:
        scenario: its name, the path of a .toml file, or an object.
        profile: another profile than the scenario's.
        set: settings on top of both.
        seed: of random faults and random loads.
        capture: frames to send: a path, the bytes of a pcap or pcapng file, or packets.
        faults: such as "lost-interrupt@3".
        limits: find out what limits, which takes a run for each resource that may.
    """
    with arguments(scenario, profile, set, seed, capture, faults) as args:
        return read(Result, result("run", *args, *([] if limits else ["--no-limits"])))


def compare(
    a: Path | Scenario,
    b: Path | Scenario | None = None,
    *,
    change: Settings | None = None,
    profile: Path | Profile | None = None,
    set: Settings | None = None,
    seed: int | None = None,
    capture: Capture | None = None,
) -> Comparison:
    """Runs two scenarios, or one without and with a change. `set` is for both, `change` for B."""
    with arguments(a, profile, set, seed, capture, also=b) as args:
        for key, value in (change or {}).items():
            args += ["--with", f"{key}={text(value)}"]
        return read(Comparison, result("compare", *args))


def _over(over: Mapping[str, Iterable[Value]]) -> list[str]:
    def listed(values: Iterable[Value]) -> str:
        return values if isinstance(values, str) else ",".join(map(text, values))

    return [f"--over={key}={listed(values)}" for key, values in over.items()]


def _kept(cache: Path | None, jobs: int | None) -> list[str]:
    args = [] if cache is None else ["--cache", os.fspath(cache)]
    return args if jobs is None else [*args, "--jobs", str(jobs)]


def _swept(*args: str) -> Sweep:
    """Runs points, and reads the file that the command writes."""
    import pyarrow.parquet

    with tempfile.TemporaryDirectory(prefix="doorbell-") as directory:
        path = pathlib.Path(directory, "points.parquet")
        command(*args, "--out", str(path), "--quiet")
        table = pyarrow.parquet.read_table(path)
    about = json.loads(table.schema.metadata[b"doorbell"])
    return Sweep(table, about["units"])


@overload
def sweep(
    scenario: Path | Scenario,
    over: Mapping[str, Iterable[Value]],
    *,
    profile: Path | Profile | None = None,
    set: Settings | None = None,
    seed: int | None = None,
    capture: Capture | None = None,
    cache: Path | None = None,
    jobs: int | None = None,
) -> Sweep: ...


@overload
def sweep(
    scenario: Path | Scenario,
    over: Mapping[str, Iterable[Value]],
    *,
    client: "Client",
    out: Path,
    chunk: int | None = None,
    profile: Path | Profile | None = None,
    set: Settings | None = None,
    seed: int | None = None,
    capture: Path | None = None,
    cache: Path | None = None,
) -> Any: ...


def sweep(
    scenario: Path | Scenario,
    over: Mapping[str, Iterable[Value]],
    *,
    client: "Client | None" = None,
    out: Path | None = None,
    chunk: int | None = None,
    profile: Path | Profile | None = None,
    set: Settings | None = None,
    seed: int | None = None,
    capture: Any = None,
    cache: Path | None = None,
    jobs: int | None = None,
) -> Any:
    """Runs a scenario over all combinations of the values of some keys, on all cores.

    With `client` it runs on a Dask cluster, and returns a lazy frame (dask.dataframe) of the
    Parquet dataset in `out`, in the order of the points. The call of a sweep that was ended goes
    on from the files that are there.

    Args:
        client: a client of `distributed`. Captures and `cache` must be at their paths there.
        out: with `client`, the directory of the dataset.
        chunk: with `client`, points of a task; by default those that are a second of work.
        over: keys with their values; the last key changes fastest. A string may be a range, such
            as "64..1500:4".
        cache: a directory that keeps the numbers of each point, so that none runs twice and a
            sweep that was ended goes on where it was.
        jobs: runs at a time, if not one a core.
    """
    if client is not None:
        if out is None or jobs is not None:
            raise TypeError("with `client`, `out` is required and `jobs` is the cluster's")
        if chunk is not None and chunk < 1:
            raise InputError("chunk", f"{chunk}: allowed is a number from 1 on")
        if isinstance(capture, str | os.PathLike):
            capture = os.path.abspath(capture)
        points = plan(scenario, over, profile=profile, set=set, seed=seed, capture=capture)
        kept = None if cache is None else os.path.abspath(cache)
        return _dask.distribute(client, points, out, kept, chunk)
    with arguments(scenario, profile, set, seed, capture) as args:
        return _swept("sweep", *args, *_over(over), *_kept(cache, jobs))


def plan(
    scenario: Path | Scenario,
    over: Mapping[str, Iterable[Value]],
    *,
    profile: Path | Profile | None = None,
    set: Settings | None = None,
    seed: int | None = None,
    capture: Path | None = None,
) -> list[str]:
    """Returns the points of a sweep, each a line for `point`: all that its run needs but the
    capture, which has to be at the same path there."""
    if not isinstance(capture, str | os.PathLike | None):
        raise TypeError("a point runs later, so its capture has to be a file")
    with arguments(scenario, profile, set, seed, capture) as args:
        return command("sweep", *args, *_over(over), "--plan").splitlines()


def point(points: Sequence[str], *, cache: Path | None = None, jobs: int | None = None) -> Sweep:
    """Runs points of `plan`, here or on another machine. The rows are in their order."""
    with tempfile.NamedTemporaryFile("w", suffix=".ndjson", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in points)
        file.flush()
        return _swept("point", file.name, *_kept(cache, jobs))


def advise(
    scenario: Path | Scenario,
    *,
    goal: str = "packets_per_s",
    keep: Iterable[str] = (),
    over: Mapping[str, Iterable[Value]] | None = None,
    fix: Iterable[str] = (),
    profile: Path | Profile | None = None,
    set: Settings | None = None,
    seed: int | None = None,
    capture: Capture | None = None,
) -> Advice:
    """Searches the settings that serve a goal best.

    Args:
        goal: a number of a run; packets and bits a second are to be high, all others low.
        keep: bounds, such as "latency_ns.p99<20us".
        over: the values to search, instead of the settings that people can change.
        fix: keys to leave as they are.
    """
    with arguments(scenario, profile, set, seed, capture) as args:
        args += ["--goal", goal, *_over(over or {})]
        args += [f"--keep={bound}" for bound in keep] + [f"--fix={key}" for key in fix]
        return read(Advice, result("advise", *args))


def fit(measurements: Path, *, out: Path | None = None) -> Fit:
    """Solves for constants of a profile by measurements, a .toml file; `out` gets the profile."""
    args = [] if out is None else ["--out", os.fspath(out)]
    return read(Fit, result("fit", named_file(measurements), *args))


def reproduce(*systems: str, set: Settings | None = None) -> Reproduction:
    """Computes the published figures of systems, by default of all. It takes minutes."""
    args = [
        part for key, value in (set or {}).items() for part in ("--set", f"{key}={text(value)}")
    ]
    return read(Reproduction, result("reproduce", *systems, *args))
