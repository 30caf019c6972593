"""The commands as functions."""

import json
import os
import pathlib
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from . import _dask
from ._errors import InputError, Progress, command, result
from ._files import Capture, Profile, Scenario, Settings, arguments, named_file, plain, text
from ._results import (
    Advice,
    Check,
    Comparison,
    Fit,
    Ranking,
    Reproduction,
    Result,
    Sweep,
    ranking,
    read,
)

if TYPE_CHECKING:
    from distributed import Client

Path = str | os.PathLike[str]
# Keys with their values, of which each combination is a point; or a list of points.
Over = Mapping[str, Iterable[object]] | Sequence[Settings]


def run(
    scenario: Path | Scenario,
    *,
    profile: Path | Profile | None = None,
    set: Settings | None = None,
    seed: int | None = None,
    capture: Capture | None = None,
    faults: Iterable[str] = (),
    limits: bool = True,
    progress: Progress = False,
) -> Result:
    """Runs a scenario.

    >>> run("mlx5-pktgen-64", set={"traffic.packets": 480}, limits=False)["maps"]
    1.0

    Args:
        scenario: its name, as `scenarios()` lists them, the path of a .toml file, or an object.
        profile: another profile than the scenario's.
        set: settings on top of both; `keys()` lists them.
        seed: of random faults and random loads.
        capture: frames to send: a path, the bytes of a pcap or pcapng file, or packets.
        faults: such as "lost-interrupt@3".
        limits: find out what limits, which takes a run for each resource that may.
        progress: True shows how much is done, as a line on stderr; a function gets what is done
            and of how much, now and then.
    """
    with arguments(scenario, profile, set, seed, capture, faults) as args:
        args += [] if limits else ["--no-limits"]
        return read(Result, result("run", *args, progress=progress))


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
    """Runs two scenarios, or one without and with a change. `set` is for both, `change` for B.

    >>> short = {"traffic.packets": 480}
    >>> both = compare("mlx5-pktgen-64", change={"driver.mpwqe": False}, set=short)
    >>> both.per_packet["pcie_read_bytes"].ratio > 1
    True
    """
    with arguments(a, profile, set, seed, capture, also=b) as args:
        for key, value in (change or {}).items():
            args += ["--with", f"{key}={text(value)}"]
        return read(Comparison, result("compare", *args))


def _over(over: Mapping[str, Iterable[object]]) -> list[str]:
    """Returns keys and values as options. Values are passed as JSON, and may have commas; a string
    is a range, or a list, as on the command line."""

    def listed(key: str, values: Iterable[object]) -> str:
        if isinstance(values, str):
            return values
        if not isinstance(values, Iterable):
            raise TypeError(f"over[{key!r}] is {values!r}; expected its values, as a list")
        found = [plain(v) for v in values]
        if not found:
            raise InputError(f"over[{key!r}]", "it has no values")
        return json.dumps(found)

    return [f"--over={key}={listed(key, values)}" for key, values in over.items()]


_EMPTY = "it is empty; expected keys with their values, such as {'pcie.mps': [128, 256]}"


def _planned(over: Over, seed: int | None, *args: str) -> list[str]:
    """Returns the lines of the points of a sweep."""
    if not over:
        raise InputError("over", _EMPTY)
    points = [over] if isinstance(over, Mapping) else [{k: [v] for k, v in p.items()} for p in over]
    if seed is not None and any("run.seed" in p for p in points):
        raise InputError("seed", "`over` has the key run.seed, which is the same")
    if not all(points):
        raise InputError("over", "a point has no settings")
    lines = (command("sweep", *args, *_over(p), "--plan").splitlines() for p in points)
    return [line for some in lines for line in some]


def _kept(cache: Path | None, jobs: int | None) -> list[str]:
    args = [] if cache is None else ["--cache", os.fspath(cache)]
    return args if jobs is None else [*args, "--jobs", str(jobs)]


def _swept(*args: str, progress: Progress) -> Sweep:
    """Runs points, and reads the file that the command writes."""
    import pyarrow.parquet

    with tempfile.TemporaryDirectory(prefix="doorbell-") as directory:
        path = pathlib.Path(directory, "points.parquet")
        command(*args, "--out", str(path), "--quiet", progress=progress)
        table = pyarrow.parquet.read_table(path)
    about = json.loads(table.schema.metadata[b"doorbell"])
    return Sweep(table, about.pop("units"), about)


@overload
def sweep(
    scenario: Path | Scenario,
    over: Over,
    *,
    profile: Path | Profile | None = None,
    set: Settings | None = None,
    seed: int | None = None,
    capture: Capture | None = None,
    cache: Path | None = None,
    jobs: int | None = None,
    progress: Progress = False,
) -> Sweep: ...


@overload
def sweep(
    scenario: Path | Scenario,
    over: Over,
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
    over: Over,
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
    progress: Progress = False,
) -> Any:
    """Runs a scenario over all combinations of the values of some keys, on all cores; or over a
    list of points.

    >>> short = {"traffic.packets": 480}
    >>> sweep("mlx5-pktgen-64", {"traffic.mix": ["60:7,590:4,1514:1", "off"]}, set=short)
    <Sweep: 2 points of mlx5-pktgen-64 over traffic.mix>
    >>> points = [{"pcie.mps": 128, "traffic.burst": 8}, {"pcie.mps": 256, "traffic.burst": 32}]
    >>> sweep("mlx5-pktgen-64", points, set=short).table["traffic.burst"].to_pylist()
    [8, 32]

    With `client` it runs on a Dask cluster, and returns a lazy frame (dask.dataframe) of the
    Parquet dataset in `out`, in the order of the points. The call of a sweep that was ended goes
    on from the files that are there.

    Args:
        client: a client of `distributed`. Captures and `cache` must be at their paths there.
        out: with `client`, the directory of the dataset.
        chunk: with `client`, points of a task; by default those that are a second of work.
        over: keys with their values; the last key changes fastest. Values are numbers, words, True
            and False, also of numpy or pandas. A string instead of a list is a range, such as
            "64..1500:4". Or a list of points, each a dict of settings.
        cache: a directory that keeps the numbers of each point, so that none runs twice and a
            sweep that was ended goes on where it was.
        jobs: runs at a time, if not one a core.
        progress: as that of `run`, in points.
    """
    if client is not None:
        if out is None or jobs is not None:
            raise TypeError("with `client`, `out` is required and `jobs` is the cluster's")
        if chunk is not None and chunk < 1:
            raise InputError("chunk", f"{chunk}: allowed is a number from 1 on")
        if isinstance(capture, str | os.PathLike):
            capture = os.path.abspath(capture)
        points = plan(scenario, over, profile=profile, set=set, seed=seed, capture=capture)
        shared = None if cache is None else os.path.abspath(cache)
        return _dask.distribute(client, points, out, shared, chunk)
    kept = _kept(cache, jobs)
    with arguments(scenario, profile, set, seed, capture) as args:
        if isinstance(over, Mapping) and over and not (seed is not None and "run.seed" in over):
            return _swept("sweep", *args, *_over(over), *kept, progress=progress)
        return _points(_planned(over, seed, *args), kept, progress)


def plan(
    scenario: Path | Scenario,
    over: Over,
    *,
    profile: Path | Profile | None = None,
    set: Settings | None = None,
    seed: int | None = None,
    capture: Path | None = None,
) -> list[str]:
    """Returns the points of a sweep, each a line for `point`: all that its run needs but the
    capture, which has to be at the same path there.

    >>> len(plan("mlx5-pktgen-64", {"traffic.burst": range(1, 5)}))
    4
    """
    if not isinstance(capture, str | os.PathLike | None):
        raise TypeError("a point runs later, so its capture has to be a file")
    with arguments(scenario, profile, set, seed, capture) as args:
        return _planned(over, seed, *args)


def point(
    points: Sequence[str],
    *,
    cache: Path | None = None,
    jobs: int | None = None,
    progress: Progress = False,
) -> Sweep:
    """Runs points of `plan`, here or on another machine. The rows are in their order.

    >>> lines = plan("mlx5-pktgen-64", {"traffic.burst": [8, 1]}, set={"traffic.packets": 480})
    >>> point(lines[:1]).table["traffic.burst"].to_pylist()
    [8]
    """
    return _points(points, _kept(cache, jobs), progress)


def _points(points: Sequence[str], kept: Sequence[str], progress: Progress) -> Sweep:
    with tempfile.NamedTemporaryFile("w", suffix=".ndjson", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in points)
        file.flush()
        return _swept("point", file.name, *kept, progress=progress)


def advise(
    scenario: Path | Scenario,
    *,
    goal: str = "packets_per_s",
    keep: Iterable[str] = (),
    over: Mapping[str, Iterable[object]] | None = None,
    fix: Iterable[str] = (),
    profile: Path | Profile | None = None,
    set: Settings | None = None,
    seed: int | None = None,
    capture: Capture | None = None,
) -> Advice:
    """Searches the settings that serve a goal best.

    >>> switch = {"driver.mpwqe": [False, True]}
    >>> short = {"traffic.packets": 480}
    >>> advise("mlx5-pktgen-64", goal="pcie_read_bytes", over=switch, set=short).goal
    'pcie_read_bytes'

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


def rank(
    scenarios: Path | Scenario | Sequence[Path | Scenario],
    sides: Mapping[str, Settings],
    by: str | Iterable[str],
    *,
    show: Iterable[str] = (),
    seeds: range | None = None,
    where: str | None = None,
    noise: float = 5.0,
    profile: Path | Profile | None = None,
    set: Settings | None = None,
    progress: Progress = False,
) -> Ranking:
    """Ranks the first of some sides, each a choice of settings, against the others.

    >>> sides = {"on": {"driver.mpwqe": True}, "off": {"driver.mpwqe": False}}
    >>> ranked = rank("mlx5-pktgen-64", sides, "pcie_read_bytes", set={"traffic.packets": 480})
    >>> [(row.side, row.against_first) for row in ranked.rows]
    [('on', ''), ('off', 'dominated')]

    Args:
        scenarios: one or more.
        sides: their settings by name.
        by: numbers that count; a side that is worse in all is dominated.
        show: numbers beside them.
        seeds: run each scenario with each of these, and count loads.
        where: leave out loads in which a side does not meet this, such as "lost_share=0".
        noise: differences up to so many percent count as equal.
        progress: as that of `run`.
    """
    if not sides:
        raise InputError("sides", "it is empty; expected settings by name")
    with arguments(scenarios, profile, set) as args:
        for name, side in sides.items():
            if ":" in name or "=" in name:
                raise InputError(f"sides[{name!r}]", "a name has neither `:` nor `=`")
            args += ["--side", f"{name}: {json.dumps({k: plain(v) for k, v in side.items()})}"]
        args += [f"--by={number}" for number in ([by] if isinstance(by, str) else by)]
        args += [f"--show={number}" for number in show] + [f"--noise={text(noise)}"]
        if seeds is not None:
            if len(seeds) == 0 or seeds.step != 1:
                raise InputError("seeds", f"{seeds}: expected seeds one after another")
            args += ["--seeds", f"{seeds[0]}-{seeds[-1]}"]
        if where is not None:
            args += [f"--where={where}"]
        return ranking(result("rank", *args, progress=progress))


def check(
    budget: Path,
    *,
    report: Result | Path | None = None,
    profile: Path | Profile | None = None,
    set: Settings | None = None,
    seed: int | None = None,
    progress: Progress = False,
) -> Check:
    """Holds a run against a budget, a .toml file. In a test of pytest

        def test_what_a_packet_costs():
            assert doorbell.check("budget.toml")

    fails with the limits that are broken, and what was measured.

    Args:
        budget: its path; `doorbell new budget` writes one.
        report: a result that is there, instead of a run: one of `run`, or the JSON of one.
        progress: as that of `run`.
    """
    with arguments([], profile, set, seed) as args:
        if isinstance(report, Result):
            with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
                json.dump(report.json, file)
                file.flush()
                given = ["--report", file.name]
                found = result("check", named_file(budget), *given, *args, progress=progress)
        else:
            given = [] if report is None else ["--report", named_file(report)]
            found = result("check", named_file(budget), *given, *args, progress=progress)
    return read(Check, found)


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
