"""A person's script, as type checkers see it. It also runs."""

from typing import assert_type

import doorbell

over = {"run.seed": range(2), "driver.mpwqe": [False, True]}
short: doorbell.Settings = {"traffic.packets": 480, "pcie.mps": "256 B"}
swept = doorbell.sweep("mlx5-pktgen-64", over, set=short, jobs=1)
assert_type(swept, doorbell.Sweep)
assert_type(swept.over, tuple[str, ...])
points: list[doorbell.Settings] = [{"traffic.burst": burst} for burst in (1, 8)]
doorbell.sweep("mlx5-pktgen-64", points, set=short)

result = doorbell.run("mlx5-pktgen-64", set=short, limits=False)
assert_type(result, doorbell.Result)
assert_type(result["maps"], float)
assert_type(result.limit, doorbell.Limit | None)


def tell(done: int, of: int) -> None:
    print(done, of)


both = doorbell.compare("mlx5-pktgen-64", change={"driver.mpwqe": False}, set=short)
assert_type(both.per_packet["maps"].ratio, float | None)
sides = {"on": {"driver.mpwqe": True}, "off": {"driver.mpwqe": False}}
ranked = doorbell.rank("mlx5-pktgen-64", sides, "cycles", set=short, progress=tell)
assert_type(ranked.rows, tuple[doorbell.Ranked, ...])
try:
    doorbell.run("mlx5-pktgen-64", set={"pcie.mps": 3})
except doorbell.InputError as error:
    assert_type(error.line, int | None)
assert_type(doorbell.__version__, str)
