"""Results as dataclasses. Each keeps the whole result as `json`, by `doorbell schema result`."""

import dataclasses
import html
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from . import _catalog
from ._errors import unknown

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    import xarray

T = TypeVar("T")


def _short(x: object) -> str:
    """Returns a number as people read it."""
    return f"{x:,.6g}" if isinstance(x, float) else f"{x:,}" if isinstance(x, int) else str(x)


def _html(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a table for a notebook."""

    def row(tag: str, cells: Iterable[object]) -> str:
        return "".join(f"<{tag}>{html.escape(_short(c))}</{tag}>" for c in cells)

    body = "".join(f"<tr>{row('td', r)}</tr>" for r in rows)
    return (
        f"<table><caption>{html.escape(title)}</caption>"
        f"<thead><tr>{row('th', heads)}</tr></thead><tbody>{body}</tbody></table>"
    )


def read(kind: type[T], value: Any) -> T:
    """Returns a value of JSON as a type of this module."""
    return typing.cast(T, _read(kind, value))


def _read(kind: Any, value: Any) -> Any:
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = typing.get_type_hints(kind)
        # `from_` is `from`, which is no name in Python.
        names = [(f.name, f.name.rstrip("_")) for f in dataclasses.fields(kind)]
        given = {own: _read(hints[own], value[name]) for own, name in names if name in value}
        if "json" in hints:
            given["json"] = value
        return kind(**given)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        (inner,) = [a for a in args if a is not type(None)]
        return None if value is None else _read(inner, value)
    if origin is tuple:
        return tuple(_read(args[0], v) for v in value)
    if origin is Mapping:
        return {k: _read(args[1], v) for k, v in value.items()}
    return value


@dataclass(frozen=True)
class Limit:
    """The limit of a run, found by running again with each resource a tenth wider.

    Attributes:
        binds: the resource that limits; None if none does alone.
        said: the same as a sentence.
    """

    binds: str | None
    said: str


@dataclass(frozen=True, repr=False)
class Result:
    """A run. `result["cycles"]` is a number by its name in `doorbell.metrics()`.

    >>> import doorbell
    >>> result = doorbell.run("mlx5-pktgen-64", set={"traffic.packets": 480}, limits=False)
    >>> result["maps"], result.packets
    (1.0, 480)
    >>> result["map"]
    Traceback (most recent call last):
    doorbell.UnknownName: no number of this run is called `map`; the nearest is `maps`

    Attributes:
        scenario, system, profile: their names.
        settings: the value of every key, with its unit; None for a file that is not given.
        seed: of random faults and random loads.
        packets: sent, or received where the load is received.
        seconds: simulated time, in s.
        rates: rates over the steady window, in the unit at the end of the name; shares of 1.
        rates_error: half of the 95 % interval of a rate, in its unit; empty for a short run.
        ledger: counts of the whole run.
        per_packet: the same by packet, and CPU cycles, in all and by cause.
        latency_ns: quantiles in ns: min, p50, p90, p99, p999, max; empty where nothing has one.
        limits: the share of each resource that was used, 1 at its limit.
        limit: what limits, unless `limits=False` was given.
        audit: the checks that failed; empty if all counts agree.
    """

    scenario: str
    system: str
    profile: str
    settings: Mapping[str, str | None]
    seed: int
    packets: int
    seconds: float
    rates: Mapping[str, float]
    rates_error: Mapping[str, float]
    ledger: Mapping[str, int]
    per_packet: Mapping[str, float]
    latency_ns: Mapping[str, float]
    limits: Mapping[str, float]
    audit: tuple[str, ...]
    json: Mapping[str, Any] = dataclasses.field(repr=False)
    limit: Limit | None = None

    def numbers(self) -> dict[str, float]:
        """Returns all numbers by name: those of a packet, rates, latencies."""
        latencies = {f"latency_ns.{k}": v for k, v in self.latency_ns.items()}
        return {**self.per_packet, **self.rates, **latencies}

    def __getitem__(self, name: str) -> float:
        numbers = self.numbers()
        if name not in numbers:
            raise unknown("number of this run", name, numbers)
        return numbers[name]

    def _title(self) -> str:
        return f"{self.scenario} on {self.profile}, {self.packets:,} packets"

    def __repr__(self) -> str:
        rate = self.rates.get("packets_per_s")
        parts = [self._title()]
        parts += [] if rate is None else [f"{rate:,.6g} packets/s"]
        parts += [f"limited by {self.binds}"] if self.binds else []
        parts += [f"audit failed: {'; '.join(self.audit)}"] if self.audit else []
        return f"<Result: {', '.join(parts)}>"

    def _repr_html_(self) -> str:
        about = _catalog.about(self.system)

        def row(name: str, value: float) -> tuple[object, ...]:
            metric = about.get(name, {})
            return name, value, metric.get("unit", ""), metric.get("about", "")

        rows = (row(name, n) for name, n in self.numbers().items() if n)
        return _html(self._title(), ("number", "", "unit", "about"), rows)

    @property
    def binds(self) -> str | None:
        """The resource that limits, if one does alone."""
        return self.limit.binds if self.limit else None

    def latencies(self) -> "pyarrow.Table":
        """Returns the histogram of latencies: columns `upto_ns` (a bucket's upper bound, in ns)
        and `packets`, a row for each bucket that is not empty."""
        import pyarrow

        rows = self.json["latency_histogram_ns"]
        return pyarrow.table({"upto_ns": [r[0] for r in rows], "packets": [r[1] for r in rows]})

    def series(self, name: str) -> "pyarrow.Table":
        """Returns a number over simulated time: columns `ms` and the number's name."""
        import pyarrow

        if name not in self.json["series"]:
            raise unknown("series of this run", name, self.json["series"])
        rows = self.json["series"][name]
        return pyarrow.table({"ms": [r[0] for r in rows], name: [r[1] for r in rows]})


@dataclass(frozen=True)
class Pair:
    """A number in both runs: `difference` is b less a, `ratio` b by a, None if a is 0.

    A number that a run does not have is None, and so are those that follow from it.
    """

    a: float | None
    b: float | None
    difference: float | None
    ratio: float | None


@dataclass(frozen=True, repr=False)
class Comparison:
    """Two runs, and the pairs of their numbers, with names and units of `Result`."""

    a: Result
    b: Result
    rates: Mapping[str, Pair]
    per_packet: Mapping[str, Pair]
    latency_ns: Mapping[str, Pair]
    json: Mapping[str, Any] = dataclasses.field(repr=False)

    def __repr__(self) -> str:
        return f"<Comparison: a {self.a!r}, b {self.b!r}>"

    def _repr_html_(self) -> str:
        latencies = {f"latency_ns.{k}": pair for k, pair in self.latency_ns.items()}
        pairs = {**self.rates, **self.per_packet, **latencies}
        rows = ((n, p.a, p.b, p.difference) for n, p in pairs.items() if p.a != p.b)
        return _html("what differs", ("number", "a", "b", "b - a"), rows)


# Rows of a sweep that a notebook shows.
_SHOWN = 10


@dataclass(frozen=True, repr=False)
class Sweep:
    """A sweep: a row for each point.

    Attributes:
        table: `key` of the point, `scenario`, `profile`, a column for each swept key (numbers in
            its unit, or words: a key that is on or off has the words `on` and `off` here),
            `packets`, `seconds`, and a column for each number of a run.
        units: the units of columns and keys that have one.
        origin: the version and commit that made it, and the origins of the points: scenario,
            profile with its hash, and all settings that are no column.

    >>> import doorbell
    >>> swept = doorbell.sweep(
    ...     "mlx5-pktgen-64", {"pcie.mps": [128, 256], "driver.mpwqe": [False, True]},
    ...     set={"traffic.packets": 480})
    >>> swept
    <Sweep: 4 points of mlx5-pktgen-64 over driver.mpwqe and pcie.mps>
    >>> swept.settings["traffic.packets"], swept.units["pcie.mps"]
    ('480 packets', 'B')
    """

    table: "pyarrow.Table"
    units: Mapping[str, str]
    origin: Mapping[str, Any]

    @property
    def over(self) -> tuple[str, ...]:
        """The swept keys, in the order of the columns, which is that of `keys()`."""
        systems = {of["system"] for of in self.origin["of"]}
        keys = {name for s in systems for name, k in _catalog.about(s).items() if "key" in k}
        return tuple(name for name in self.table.column_names if name in keys)

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings that all points share, with units."""
        first, *others = (of["settings"] for of in self.origin["of"])
        shared = (
            first.items()
            if not others
            else [(k, v) for k, v in first.items() if all(o.get(k) == v for o in others)]
        )
        return {k: v for k, v in shared if v is not None}

    def _about(self) -> dict[str, Mapping[str, Any]]:
        systems = [of["system"] for of in self.origin["of"]]
        return {name: k for system in systems for name, k in _catalog.about(system).items()}

    def _typed(self) -> "pyarrow.Table":
        """Returns the table with Booleans for keys that are on or off."""
        import pyarrow.compute

        table, about = self.table, self._about()
        for name in self.over:
            if _catalog.is_switch(about.get(name)):
                is_on = pyarrow.compute.equal(table[name], "on")
                table = table.set_column(table.column_names.index(name), name, is_on)
        return table

    def to_pandas(self) -> "pandas.DataFrame":
        """Returns a frame of pandas. Keys that are on or off are Booleans. `attrs` has `units`, the
        `settings` that all points share, and `doorbell`, the program that made it.

        >>> import doorbell
        >>> packets = {"traffic.packets": 480}
        >>> swept = doorbell.sweep("mlx5-pktgen-64", {"driver.mpwqe": [True, False]}, set=packets)
        >>> frame = swept.to_pandas()
        >>> list(frame["driver.mpwqe"]), frame.attrs["units"]["pcie_read_bytes"]
        ([True, False], 'B')
        """
        frame = self._typed().to_pandas()
        frame.attrs["units"] = dict(self.units)
        frame.attrs["settings"] = dict(self.settings)
        frame.attrs["doorbell"] = dict(self.origin["doorbell"])
        return typing.cast("pandas.DataFrame", frame)

    def to_polars(self) -> "polars.DataFrame":
        """Returns a frame of polars. Keys that are on or off are Booleans. polars has no place for
        units: they are in `units`."""
        import polars

        return typing.cast("polars.DataFrame", polars.from_arrow(self._typed()))

    def to_xarray(self, names: Iterable[str] | None = None) -> "xarray.Dataset":
        """Returns a dataset of xarray: a dimension for each swept key, and a variable for each
        number, or for those of these names. Each has `units` and `long_name`, which plots show, and
        the dataset has the settings that all points share as attributes."""
        names = None if names is None else list(names)
        for name in names or []:
            if name not in self.table.column_names:
                raise unknown("column", name, self.table.column_names)
        over, about = list(self.over), self._about()
        frame = self._typed().to_pandas().set_index(over)
        if names is None:
            names = [c for c in frame.columns if c not in ("key", "scenario", "profile")]
        found = typing.cast("xarray.Dataset", frame[names].to_xarray())
        for name in [*over, *names]:
            attributes = {
                "units": self.units.get(name),
                "long_name": about.get(name, {}).get("about"),
            }
            found[name].attrs.update({k: v for k, v in attributes.items() if v})
        made = self.origin["doorbell"]
        found.attrs = {**self.settings, "doorbell": f"{made['version']}+{made.get('commit')}"}
        return found

    def _title(self) -> str:
        scenarios = ", ".join(dict.fromkeys(of["scenario"] for of in self.origin["of"]))
        over = " and ".join(self.over)
        return f"{self.table.num_rows:,} points of {scenarios}" + (f" over {over}" if over else "")

    def __repr__(self) -> str:
        return f"<Sweep: {self._title()}>"

    def _repr_html_(self) -> str:
        heads = [*self.over, "packets", "packets_per_s"]
        heads = [name for name in heads if name in self.table.column_names]
        rows = self.table.select(heads).slice(0, _SHOWN).to_pylist()
        more = self.table.num_rows - len(rows)
        title = self._title() + (f"; the first {_SHOWN}" if more > 0 else "")
        named = [f"{n}, {self.units[n]}" if n in self.units else n for n in heads]
        return _html(title, named, (list(row.values()) for row in rows))


@dataclass(frozen=True)
class Budgeted:
    """A limit of a budget: what is `allowed` (`max`, `min` or `exact`), and what was measured."""

    name: str
    line: int
    allowed: Mapping[str, float]
    measured: float | None
    holds: bool
    json: Mapping[str, Any] = dataclasses.field(repr=False)


@dataclass(frozen=True, repr=False)
class Check:
    """A budget against a run. It is true if it holds, and shows what does not.

    Attributes:
        title: the run.
        holds: all limits hold, and no check of the audit failed.
        rows: the limits.
        audit: the checks that failed.
    """

    title: str
    holds: bool
    rows: tuple[Budgeted, ...]
    audit: tuple[str, ...]
    json: Mapping[str, Any] = dataclasses.field(repr=False)

    def __bool__(self) -> bool:
        return self.holds

    @property
    def broken(self) -> tuple[Budgeted, ...]:
        """The limits that do not hold."""
        return tuple(r for r in self.rows if not r.holds)

    def __repr__(self) -> str:
        def told(r: Budgeted) -> str:
            allowed = " and ".join(f"{k} {_short(v)}" for k, v in r.allowed.items())
            measured = "nothing" if r.measured is None else _short(r.measured)
            return f"{r.name} is {measured}, allowed is {allowed}"

        wrong = [*map(told, self.broken), *self.audit]
        return f"<Check: {self.title}: {'; '.join(wrong) or f'{len(self.rows)} limits hold'}>"


@dataclass(frozen=True)
class Rival:
    """A side against the first, in all loads.

    Attributes:
        side: its name.
        dominates_first, dominated_by_first: the loads in which it does, or is.
        median_first_over_side: the median quotient of each number, by name.
    """

    side: str
    dominates_first: int
    dominated_by_first: int
    median_first_over_side: Mapping[str, float | None]


@dataclass(frozen=True)
class Ranked:
    """A side in one load.

    Attributes:
        values, errors: its numbers, and the halves of their 95 % intervals.
        against_first: `dominates`, `dominated`, or nothing.
    """

    scenario: str
    side: str
    values: Mapping[str, float | None]
    errors: Mapping[str, float | None]
    against_first: str


@dataclass(frozen=True)
class Ranking:
    """Sides against the first one.

    Attributes:
        by: the numbers that count.
        loads: all loads. `runs` are those that are left by a condition; None without seeds.
        lose_frames: the loads in which a side loses frames.
        dominated: with seeds, the loads in which another side dominates the first.
        sides: with seeds, the other sides.
        rows: without seeds, a row for each side in each load.
    """

    by: tuple[str, ...]
    loads: int
    lose_frames: int
    json: Mapping[str, Any] = dataclasses.field(repr=False)
    runs: int | None = None
    dominated: tuple[str, ...] = ()
    sides: tuple[Rival, ...] = ()
    rows: tuple[Ranked, ...] = ()


def ranking(found: Mapping[str, Any]) -> Ranking:
    """Returns the result of `rank`: its rows are sides or loads."""
    given = {**found}
    if "ranked" in found:
        given["sides"] = given.pop("rows")
    else:
        del given["sides"]
    return dataclasses.replace(read(Ranking, given), json=found)


@dataclass(frozen=True)
class Change:
    """A number by its name in `doorbell.metrics()`, before and after a change."""

    name: str
    from_: float
    to: float


@dataclass(frozen=True)
class Advised:
    """A setting that is recommended.

    Attributes:
        key, from_, to: the key, its value today, and as advised.
        command: what sets it on a real system, if one is known.
        gain: of the goal behind the settings before it, relative to today's number, so that all
            add up; None if no run is possible without those behind it.
        error: half of the gain's 95 % interval; None if a run is too short to tell.
        without: change of the goal if this setting alone goes back, relative; None if no run is
            possible.
        without_error: half of the 95 % interval of that.
        costs: numbers that get worse by it.
    """

    key: str
    from_: str
    to: str
    command: str | None
    gain: float | None
    error: float | None
    without: float | None
    without_error: float | None
    costs: tuple[Change, ...]


@dataclass(frozen=True)
class Bound:
    """A bound of an advice.

    Attributes:
        text: as `keep` takes it.
        implied: it is the offered load, which was not given.
        holds: with the advice, or with the nearest settings.
        name, reached: the number that it bounds, and its value then.
    """

    text: str
    implied: bool
    holds: bool
    name: str
    reached: float | None


@dataclass(frozen=True)
class Other:
    """A value of a key that is not today's."""

    key: str
    from_: str
    to: str


@dataclass(frozen=True)
class Advice:
    """The best settings for a goal.

    Attributes:
        goal: the number to improve.
        reached: the goal's number today, and with the advice.
        keep: bounds.
        nearest: settings that come nearest to bounds that cannot be kept; there is no advice then.
        settings: recommended, in the order in which their gains add up.
        limit, limit_then: what limits today, and with the advice.
        runs: runs that were made.
    """

    goal: str
    reached: Change
    keep: tuple[Bound, ...]
    nearest: tuple[Other, ...] | None
    settings: tuple[Advised, ...]
    limit: Limit
    limit_then: Limit
    runs: int
    json: Mapping[str, Any] = dataclasses.field(repr=False)


@dataclass(frozen=True)
class Fitted:
    """A constant that was solved for.

    Attributes:
        constant, unit: the key and its unit.
        profile_value: the start of the search.
        value: None if the rows do not determine it.
        low, high: the interval that holds with 95 % for all constants together.
        state: determined, at_bound, undetermined or unused.
    """

    constant: str
    unit: str
    profile_value: float
    value: float | None
    low: float | None
    high: float | None
    state: str
    json: Mapping[str, Any] = dataclasses.field(repr=False)


@dataclass(frozen=True)
class Row:
    """A measured row, with what the fitted constants give. All numbers are in `unit`."""

    row: int
    place: str
    role: str
    scenario: str | None
    metric: str
    unit: str
    measured: float
    computed: float
    difference: float
    holds: bool | None
    json: Mapping[str, Any] = dataclasses.field(repr=False)


@dataclass(frozen=True)
class Fit:
    """Constants of a profile, solved for by measurements."""

    measurements: str
    system: str
    profile: str
    constants: tuple[Fitted, ...]
    rows: tuple[Row, ...]
    runs: int
    json: Mapping[str, Any] = dataclasses.field(repr=False)


@dataclass(frozen=True)
class Figure:
    """A published figure beside ours, both in `unit`; `measured` is None if it cannot be."""

    system: str
    figure: str
    unit: str
    published: float
    measured: float | None
    role: str
    holds: bool | None
    source: str
    note: str
    json: Mapping[str, Any] = dataclasses.field(repr=False)


@dataclass(frozen=True)
class Reproduction:
    """The published figures. `missed` are those that do not hold."""

    rows: tuple[Figure, ...]
    json: Mapping[str, Any] = dataclasses.field(repr=False)

    @property
    def missed(self) -> tuple[Figure, ...]:
        """Figures that were judged and do not hold."""
        return tuple(r for r in self.rows if r.holds is False)
