"""Profiles, scenarios and captures as objects, and their files for the time of a command."""

import dataclasses
import json
import os
import pathlib
import struct
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from ._errors import InputError, command

Value = str | int | float | bool
# Settings by key. Values are those of `Value`, and scalars of numpy and pandas.
Settings = Mapping[str, object]


class Frame(Protocol):
    """A frame: `bytes` of it, and a time in s if it has one, as packets of scapy do."""

    def __bytes__(self) -> bytes: ...


Capture = str | os.PathLike[str] | bytes | Iterable[Frame]


def plain(value: object) -> Value:
    """Returns a value as one of Python's own types: numpy and pandas have scalars of theirs."""
    item = getattr(value, "item", None)
    if callable(item):
        value = item()
    if isinstance(value, str | bool | int | float):
        return value
    raise TypeError(f"{value!r} is no value; a value is a number, a word, True or False")


def text(value: object) -> str:
    """Returns a value as `--set` takes it."""
    value = plain(value)
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def named_file(given: str | os.PathLike[str]) -> str:
    """Returns a name or path as an argument that is not taken for an option."""
    name = os.fspath(given)
    if name.startswith("-"):
        raise InputError(name, "a name does not begin with `-`; a path may begin with ./")
    return name


def _toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    value = plain(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else repr(value)


def _tables(entries: Mapping[str, str]) -> str:
    """Returns `table.key` entries as tables of TOML."""
    tables: dict[str, list[str]] = {}
    for name, entry in entries.items():
        table, dot, key = name.partition(".")
        if not dot:
            raise InputError("", f"`{name}` is no key; expected table.key such as pcie.mps")
        tables.setdefault(table, []).append(f"{key} = {entry}\n")
    return "".join(f"\n[{table}]\n{''.join(lines)}" for table, lines in tables.items())


def _keys(parsed: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for table, keys in parsed.items():
        if isinstance(keys, dict):
            yield from ((f"{table}.{key}", value) for key, value in keys.items())


@dataclass(frozen=True)
class Constant:
    """A value of a profile.

    Attributes:
        value: a number in `unit`, or a word.
        unit: its unit; empty for a word or a pure number.
        source: a URL or data sheet with its figure, `assumed: why`, or `fit:ROW`.
        range: of a fitted value, the limits of the search in `unit`.
    """

    value: Value
    unit: str = ""
    source: str = ""
    range: tuple[float, float] | None = None

    @classmethod
    def _of(
        cls, value: Value, unit: str = "", source: str = "", range: Sequence[float] | None = None
    ) -> "Constant":
        return cls(value, unit, source, (range[0], range[1]) if range else None)

    def _toml(self) -> str:
        given = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        parts = (
            f"{k} = {_toml(v)}" for k, v in given.items() if v not in ("", None) or k == "value"
        )
        return f"{{ {', '.join(parts)} }}"


@dataclass(frozen=True)
class Profile:
    """A platform: constants by key, each with its unit and source."""

    name: str
    system: str
    about: str
    constants: Mapping[str, Constant]

    @classmethod
    def load(cls, given: str | os.PathLike[str]) -> "Profile":
        """Returns the profile of this name, or of the file at this path if it ends in .toml.

        >>> Profile.load("mlx5-gen3").constants["pcie.memory_latency"].unit
        'ns'
        """
        parsed = tomllib.loads(command("new", "profile", "--from", os.fspath(given)))
        constants = {key: Constant._of(**entry) for key, entry in _keys(parsed)}
        name = pathlib.Path(given).stem
        return cls(name, parsed["system"], parsed["about"], constants)

    def replace(
        self, key: str, value: object, *, unit: str | None = None, source: str = "assumed: by hand"
    ) -> "Profile":
        """Returns the profile with another value, in the unit of the old one unless given.

        >>> far = Profile.load("mlx5-gen3").replace("pcie.memory_latency", 3, unit="us")
        >>> far.constants["pcie.memory_latency"].value
        3
        """
        old = self.constants.get(key)
        unit = unit if unit is not None else old.unit if old else ""
        new = {**self.constants, key: Constant(plain(value), unit, source)}
        return dataclasses.replace(self, constants=new)

    def toml(self) -> str:
        """Returns the text of its file."""
        heads = {"name": self.name, "system": self.system, "about": self.about}
        text = "".join(f"{k} = {_toml(v)}\n" for k, v in heads.items())
        return text + _tables({k: c._toml() for k, c in self.constants.items()})


@dataclass(frozen=True)
class Scenario:
    """A load on a system: settings by key, on a profile. Numbers with a unit are strings."""

    name: str
    system: str
    profile: str | Profile
    settings: Mapping[str, Value]
    about: str = field(default="made in Python")

    @classmethod
    def load(cls, given: str | os.PathLike[str]) -> "Scenario":
        """Returns the scenario of this name, or of the file at this path if it ends in .toml.

        >>> Scenario.load("mlx5-pktgen-64").profile
        'mlx5-gen2'
        """
        name = pathlib.Path(given).stem
        with tempfile.TemporaryDirectory(prefix="doorbell-") as made:
            # From a file elsewhere, paths are named from the root.
            file = pathlib.Path(made, f"{name}.toml")
            command("new", "scenario", str(file), "--from", os.fspath(given))
            parsed = tomllib.loads(file.read_text("utf-8"))
        settings = dict(_keys(parsed))
        return cls(name, parsed["system"], parsed["profile"], settings, parsed["about"])

    def replace(self, settings: Mapping[str, object]) -> "Scenario":
        """Returns the scenario with these settings on top of its own; None takes one away.

        >>> Scenario.load("mlx5-pktgen-64").replace({"pcie.mps": 128}).settings["pcie.mps"]
        128
        """
        all = {**self.settings, **settings}
        new = {k: plain(v) for k, v in all.items() if v is not None}
        return dataclasses.replace(self, settings=new)

    def toml(self) -> str:
        """Returns the text of its file. A `Profile` is named by its file beside it."""
        profile = self.profile
        if isinstance(profile, Profile):
            profile = f"{profile.name}.toml"
        elif profile.endswith(".toml"):
            profile = os.path.abspath(profile)
        heads = {"name": self.name, "about": self.about, "system": self.system, "profile": profile}
        text = "".join(f"{k} = {_toml(v)}\n" for k, v in heads.items())
        return text + _tables({k: _toml(v) for k, v in self.settings.items()})


def _pcap(frames: Iterable[Frame]) -> bytes:
    """Returns a capture with the frames, at their times, or a microsecond apart."""
    file = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 0x40000, 1)]
    for n, frame in enumerate(frames):
        octets = bytes(frame)
        at = getattr(frame, "time", None)
        try:
            ns = n * 1000 if at is None else int(at * 10**9)
        except (ValueError, OverflowError):
            ns = -1
        if not 0 <= ns < 2**32 * 10**9:
            raise InputError("capture", f"frame {n}: its time, {at} s, does not fit a capture")
        file += struct.pack("<IIII", ns // 10**9, ns % 10**9, len(octets), len(octets)), octets
    return b"".join(file)


@contextmanager
def arguments(
    scenario: str | os.PathLike[str] | Scenario | Sequence[str | os.PathLike[str] | Scenario],
    profile: str | os.PathLike[str] | Profile | None = None,
    set: Settings | None = None,
    seed: int | None = None,
    capture: Capture | None = None,
    faults: Iterable[str] = (),
    also: str | os.PathLike[str] | Scenario | None = None,
) -> Iterator[list[str]]:
    """Yields the arguments of a command; files of objects are there until then."""
    with tempfile.TemporaryDirectory(prefix="doorbell-") as made:
        directory = pathlib.Path(made)

        def named(of: str | os.PathLike[str] | Profile | Scenario) -> str:
            if isinstance(of, str | os.PathLike):
                return named_file(of)
            if isinstance(of, Scenario) and isinstance(of.profile, Profile):
                of = dataclasses.replace(of, profile=named(of.profile))
            # Two objects may have one name.
            own = tempfile.mkdtemp(dir=directory)
            path = pathlib.Path(own, f"{pathlib.Path(of.name).name}.toml")
            path.write_text(of.toml(), "utf-8")
            return str(path)

        if isinstance(scenario, str | os.PathLike | Scenario):
            scenario = [scenario]
        args = [named(of) for of in (*scenario, also) if of is not None]
        if profile is not None:
            args += ["--profile", named(profile)]
        if isinstance(set, str):
            raise TypeError("`set` is keys with their values, such as {'pcie.mps': 128}")
        for key, value in (set or {}).items():
            args += ["--set", f"{key}={text(value)}"]
        if seed is not None:
            args += ["--seed", text(seed)]
        for fault in faults:
            args += ["--fault", fault]
        if capture is not None:
            if isinstance(capture, str | os.PathLike):
                args += ["--pcap", os.fspath(capture)]
            else:
                path = directory / "capture"
                path.write_bytes(capture if isinstance(capture, bytes) else _pcap(capture))
                args += ["--pcap", str(path)]
        yield args
