"""What there is: scenarios, keys and numbers, as tables."""

import functools
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ._errors import command

if TYPE_CHECKING:
    import pyarrow


@functools.cache
def _listed(*args: str) -> Any:
    return json.loads(command("list", *args, "--format", "json"))


def _table(rows: list[Mapping[str, Any]]) -> "pyarrow.Table":
    import pyarrow

    return pyarrow.Table.from_pylist(rows)


def scenarios(system: str | None = None) -> "pyarrow.Table":
    """Returns the scenarios: `name`, `system`, `profile`, `about`.

    >>> "mlx5-pktgen-64" in scenarios("mlx5")["name"].to_pylist()
    True
    """
    return _table(_listed(*([system] if system else []))["scenarios"])


def profiles(system: str | None = None) -> list[str]:
    """Returns the names of the profiles.

    >>> "mlx5-gen3" in profiles("mlx5")
    True
    """
    return list(_listed(*([system] if system else []))["profiles"])


def keys(system: str | None = None, word: str | None = None) -> "pyarrow.Table":
    """Returns the keys of scenarios and profiles: `system`, `key`, `of`, `allowed` values with the
    unit, `default`, `needs` (conditions under which it has an effect), `about`.

    Args:
        system: of this system alone.
        word: those with this word in name or description.

    >>> keys("mlx5", "pcie.mps").select(["key", "allowed"]).to_pylist()
    [{'key': 'pcie.mps', 'allowed': '128, 256, 512, 1024, 2048, 4096 B'}]
    """
    found = [k for k in _listed("--keys", *([system] if system else []))["keys"] if _has(k, word)]
    every = ("system", "key", "of", "allowed", "default", "needs", "about")
    return _table([{name: k.get(name) for name in every} for k in found])


def metrics(system: str | None = None, word: str | None = None) -> "pyarrow.Table":
    """Returns the numbers of a run: `system`, `name`, `unit`, `counted` (of which packets or over
    what), `about`. The names are those of `result[...]` and of the columns of a sweep.

    Args:
        system: of this system alone.
        word: those with this word in name or description.

    >>> metrics("mlx5", "p999").select(["name", "unit"]).to_pylist()
    [{'name': 'latency_ns.p999', 'unit': 'ns'}]
    """
    args = [system] if system else []
    found = [m for m in _listed("--metrics", *args)["metrics"] if _has(m, word)]
    return _table([{**m, "unit": m["unit"] or None} for m in found])


def _has(row: Mapping[str, Any], word: str | None) -> bool:
    name = row.get("key") or row.get("name")
    return word is None or word.lower() in f"{name} {row['about']}".lower()


def about(system: str) -> dict[str, Mapping[str, Any]]:
    """Returns the numbers and keys of a system, by name."""
    numbers = {m["name"]: m for m in _listed("--metrics", system)["metrics"]}
    return {**numbers, **{k["key"]: k for k in _listed("--keys", system)["keys"]}}


def is_switch(key: Mapping[str, Any] | None) -> bool:
    """Returns true for a key that is on or off."""
    return key is not None and set(key.get("allowed", "").split(", ")) == {"on", "off"}
