"""Doorbell measures what a NIC driver costs per packet, without the NIC.

`run`, `compare`, `sweep`, `advise`, `fit` and `reproduce` are the commands of the same names, with
dataclasses as results; the columns of a sweep are an Arrow table. `plan` and `point` are the two
halves of a sweep, for whatever distributes work. `Profile` and `Scenario` are files of Doorbell as
objects.

Settings are a dict of keys and values: numbers in the key's unit, strings with a unit ("300 ns"),
words, or booleans for on and off. Captures are paths, the bytes of a file, or packets of scapy.
The interpreter's lock is free while a command runs, and Ctrl-C ends it.
"""

from ._commands import advise, compare, fit, plan, point, reproduce, run, sweep
from ._errors import Error, InputError
from ._files import Constant, Profile, Scenario
from ._results import (
    Advice,
    Advised,
    Bound,
    Change,
    Comparison,
    Figure,
    Fit,
    Fitted,
    Limit,
    Other,
    Pair,
    Reproduction,
    Result,
    Row,
    Sweep,
)

__all__ = [
    "Advice",
    "Advised",
    "Bound",
    "Change",
    "Comparison",
    "Constant",
    "Error",
    "Figure",
    "Fit",
    "Fitted",
    "InputError",
    "Limit",
    "Other",
    "Pair",
    "Profile",
    "Reproduction",
    "Result",
    "Row",
    "Scenario",
    "Sweep",
    "advise",
    "compare",
    "fit",
    "plan",
    "point",
    "reproduce",
    "run",
    "sweep",
]
