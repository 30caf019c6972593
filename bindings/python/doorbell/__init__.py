"""Doorbell measures what a NIC driver costs per packet, without the NIC.

`run`, `compare`, `sweep`, `rank`, `check`, `advise`, `fit` and `reproduce` are the commands of the
same names, with dataclasses as results; the columns of a sweep are an Arrow table, which goes to
pandas, polars and xarray. `plan` and `point` are the two halves of a sweep, for whatever
distributes work. `scenarios`, `profiles`, `keys` and `metrics` list what there is. `Profile` and
`Scenario` are files of Doorbell as objects.

Settings are a dict of keys and values: numbers in the key's unit, strings with a unit ("300 ns"),
words, or Booleans for on and off, also scalars of numpy and pandas. Captures are paths, the bytes
of a file, or packets of scapy.
The interpreter's lock is free while a command runs, and Ctrl-C ends it.
"""

from ._catalog import keys, metrics, profiles, scenarios
from ._commands import Over, advise, check, compare, fit, plan, point, rank, reproduce, run, sweep
from ._errors import Error, InputError, Progress, UnknownName
from ._files import Capture, Constant, Profile, Scenario, Settings
from ._native import VERSION_AND_COMMIT as _BUILT
from ._results import (
    Advice,
    Advised,
    Bound,
    Budgeted,
    Change,
    Check,
    Comparison,
    Figure,
    Fit,
    Fitted,
    Limit,
    Other,
    Pair,
    Ranked,
    Ranking,
    Reproduction,
    Result,
    Rival,
    Row,
    Sweep,
)

# The version, and the commit that the package was built from, such as 0.1.0+1078e8779b02.
__version__ = _BUILT.replace(" (", "+").replace(")", "")

__all__ = [
    "Advice",
    "Advised",
    "Bound",
    "Budgeted",
    "Capture",
    "Change",
    "Check",
    "Comparison",
    "Constant",
    "Error",
    "Figure",
    "Fit",
    "Fitted",
    "InputError",
    "Limit",
    "Other",
    "Over",
    "Pair",
    "Profile",
    "Progress",
    "Ranked",
    "Ranking",
    "Reproduction",
    "Result",
    "Rival",
    "Row",
    "Scenario",
    "Settings",
    "Sweep",
    "UnknownName",
    "__version__",
    "advise",
    "check",
    "compare",
    "fit",
    "keys",
    "metrics",
    "plan",
    "point",
    "profiles",
    "rank",
    "reproduce",
    "run",
    "scenarios",
    "sweep",
]
