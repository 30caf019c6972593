"""Results as dataclasses. Each keeps the whole result as `json`, by `doorbell schema result`."""

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import pyarrow

T = TypeVar("T")


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


@dataclass(frozen=True)
class Result:
    """A run. `result["cycles"]` is a number by its name in `doorbell list --metrics`.

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

    def __getitem__(self, name: str) -> float:
        if name.startswith("latency_ns."):
            return self.latency_ns[name.removeprefix("latency_ns.")]
        return self.rates[name] if name in self.rates else self.per_packet[name]

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


@dataclass(frozen=True)
class Comparison:
    """Two runs, and the pairs of their numbers, with names and units of `Result`."""

    a: Result
    b: Result
    rates: Mapping[str, Pair]
    per_packet: Mapping[str, Pair]
    latency_ns: Mapping[str, Pair]
    json: Mapping[str, Any] = dataclasses.field(repr=False)


@dataclass(frozen=True)
class Sweep:
    """A sweep: a row for each point.

    Attributes:
        table: `key` of the point, `scenario`, `profile`, a column for each swept key (numbers in
            its unit, or words), `packets`, `seconds`, and a column for each number of a run.
        units: the units of columns and keys that have one.
    """

    table: "pyarrow.Table"
    units: Mapping[str, str]


@dataclass(frozen=True)
class Change:
    """A number by its name in `doorbell list --metrics`, before and after a change."""

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
    scenario: str
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
