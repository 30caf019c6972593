"""The package as it is installed. Nothing here asserts a time."""

import doctest
import hashlib
import importlib
import json
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import time

import pyarrow
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

import doorbell

SHORT = {"traffic.packets": 480}
OVER = {"pcie.mps": [128, 256], "driver.mpwqe": [False, True]}


def test_a_run_has_the_numbers_of_the_command():
    result = doorbell.run("mlx5-pktgen-64", set={**SHORT, "pcie.mps": "256 B"}, seed=3)
    assert (result.scenario, result.system, result.packets) == ("mlx5-pktgen-64", "mlx5", 480)
    assert (result.settings["pcie.mps"], result.seed, result.audit) == ("256 B", 3, ())
    assert result["maps"] == result.ledger["maps"] / 480 == result.per_packet["maps"]
    assert result["packets_per_s"] == result.rates["packets_per_s"] > 1e6
    assert result["latency_ns.p99"] == result.latency_ns["p99"]
    assert sum(result.latencies()["packets"].to_pylist()) > 0
    assert result.limit is not None and result.limit.said
    assert result.json["settings"] == result.settings
    quick = doorbell.run("mlx5-pktgen-64", set=SHORT, limits=False)
    assert quick.limit is None and quick.binds is None


def test_results_cannot_be_changed_and_can_be_sent():
    result = doorbell.run("mlx5-pktgen-64", set=SHORT, limits=False)
    with pytest.raises(AttributeError):
        result.packets = 1
    assert pickle.loads(pickle.dumps(result)) == result


def test_a_comparison_pairs_the_numbers():
    both = doorbell.compare("mlx5-pktgen-64", change={"driver.mpwqe": False}, set=SHORT)
    pair = both.per_packet["pcie_read_bytes"]
    assert (pair.a, pair.b) == (both.a["pcie_read_bytes"], both.b["pcie_read_bytes"])
    assert pair.difference == pytest.approx(pair.b - pair.a) and pair.ratio > 1


def test_a_sweep_is_a_typed_table():
    swept = doorbell.sweep("mlx5-pktgen-64", OVER, set=SHORT)
    rows = swept.table.select(["pcie.mps", "driver.mpwqe"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (128, "off"),
        (128, "on"),
        (256, "off"),
        (256, "on"),
    ]
    assert swept.table.schema.field("pcie.mps").type == pyarrow.int64()
    assert swept.units["pcie_read_bytes"] == "B" and swept.units["pcie.mps"] == "B"
    one = doorbell.run("mlx5-pktgen-64", set={**SHORT, "pcie.mps": 128, "driver.mpwqe": True})
    assert swept.table["pcie_read_bytes"][1].as_py() == one["pcie_read_bytes"]
    ranged = doorbell.sweep("mlx5-pktgen-64", {"traffic.burst": "1..4"}, set=SHORT)
    assert ranged.table["traffic.burst"].to_pylist() == [1, 2, 3, 4]


def test_values_are_values():
    mixes = ["60:7,590:4,1514:1", "off"]
    swept = doorbell.sweep("mlx5-pktgen-64", {"traffic.mix": mixes}, set=SHORT)
    assert swept.table["traffic.mix"].to_pylist() == mixes
    both = {"run.fault": ["dma-fault@3", "dma-fault@5,dma-fault@9"]}
    assert doorbell.sweep("mlx5-pktgen-64", both, set=SHORT).table.num_rows == 2
    # A list of points has what all of them set.
    points = [{"pcie.mps": 128, "traffic.burst": 8}, {"pcie.mps": 256, "traffic.burst": 32}]
    swept = doorbell.sweep("mlx5-pktgen-64", points, set=SHORT)
    rows = swept.table.select(["pcie.mps", "traffic.burst"]).to_pylist()
    assert rows == points and set(swept.over) == {"pcie.mps", "traffic.burst"}
    one = doorbell.run("mlx5-pktgen-64", set={**SHORT, **points[1]}, limits=False)
    assert swept.table["cycles"][1].as_py() == one["cycles"]
    for wrong, what in [
        ({"pcie.mps": [None]}, "None is no value"),
        ({"pcie.mps": 128}, r"expected its values, as a list"),
    ]:
        with pytest.raises(TypeError, match=what):
            doorbell.sweep("mlx5-pktgen-64", wrong)
    with pytest.raises(TypeError, match="None is no value"):
        doorbell.run("mlx5-pktgen-64", set={"pcie.mps": None})
    with pytest.raises(doorbell.InputError, match="it is empty; expected keys") as caught:
        doorbell.sweep("mlx5-pktgen-64", {})
    assert caught.value.place == "over"
    for empty, what in [({"pcie.mps": []}, "it has no values"), ([{}], "a point has no settings")]:
        with pytest.raises(doorbell.InputError, match=what):
            doorbell.sweep("mlx5-pktgen-64", empty)
    with pytest.raises(doorbell.InputError, match="run.seed, which is the same"):
        doorbell.sweep("mlx5-pktgen-64", {"run.seed": [1, 2]}, seed=3)


def test_there_are_tables_of_what_there_is():
    keys = doorbell.keys("mlx5", "pcie.mps").to_pylist()
    assert [(k["key"], k["of"]) for k in keys] == [("pcie.mps", "profile")]
    assert doorbell.keys().num_rows > doorbell.keys("mlx5").num_rows > 100
    units = {m["name"]: m["unit"] for m in doorbell.metrics("mlx5").to_pylist()}
    assert (units["latency_ns.p99"], units["maps"]) == ("ns", None)
    result = doorbell.run("mlx5-pktgen-64", set=SHORT, limits=False)
    assert set(result.rates) <= set(units)
    named = {s["name"]: s["profile"] for s in doorbell.scenarios().to_pylist()}
    assert named["mlx5-pktgen-64"] == "mlx5-gen2"
    assert "mlx5-gen3" in doorbell.profiles() and "mlx5-gen3" not in doorbell.profiles("e1000")
    with pytest.raises(doorbell.InputError, match="no system is called"):
        doorbell.keys("mlx4")
    with pytest.raises(doorbell.InputError, match=r"`doorbell.profiles\(\)` has all"):
        doorbell.run("mlx5-pktgen-64", profile="mlx5-gen9")


def test_a_wrong_name_tells_the_nearest():
    result = doorbell.run("mlx5-pktgen-64", set=SHORT, limits=False)
    with pytest.raises(KeyError, match=r"`latency_ns.p95`; the nearest is `latency_ns.p9"):
        result["latency_ns.p95"]
    with pytest.raises(doorbell.UnknownName) as caught:
        result["cycle"]
    assert str(caught.value) == "no number of this run is called `cycle`; the nearest is `cycles`"
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(doorbell.InputError, match=r"doorbell.metrics\('mlx5'\)` has all") as goal:
        doorbell.advise("mlx5-pktgen-64", goal="x")
    assert goal.value.place == "goal"
    with pytest.raises(doorbell.InputError, match=r"seed cannot be -1: invalid digit found"):
        doorbell.run("mlx5-pktgen-64", seed=-1)
    with pytest.raises(doorbell.InputError) as over:
        doorbell.sweep("mlx5-pktgen-64", {"pcie.mp": [1]})
    assert over.value.place == "over['pcie.mp']"


def test_what_is_shown_is_short():
    result = doorbell.run("mlx5-pktgen-64", set=SHORT, limits=False)
    shown = repr(result)
    assert shown.startswith("<Result: mlx5-pktgen-64 on mlx5-gen2, 480 packets, ")
    assert len(shown) < 120 and "<td>ns</td>" in result._repr_html_()
    both = doorbell.compare("mlx5-pktgen-64", change={"driver.mpwqe": False}, set=SHORT)
    assert len(repr(both)) < 300 and "pcie_read_bytes" in both._repr_html_()
    # It is equal in both.
    assert "<td>maps</td>" not in both._repr_html_()
    swept = doorbell.sweep("mlx5-pktgen-64", {"traffic.burst": range(1, 13)}, set=SHORT)
    assert repr(swept) == "<Sweep: 12 points of mlx5-pktgen-64 over traffic.burst>"
    page = swept._repr_html_()
    assert page.count("<tr>") == 11 and "the first 10" in page
    assert "<th>traffic.burst, packets</th>" in page


def test_progress_is_told():
    seen = []
    doorbell.sweep(
        "mlx5-pktgen-64", OVER, set=SHORT, progress=lambda done, of: seen.append((done, of))
    )
    assert seen[-1] == (4, 4) and seen == sorted(seen)

    def fails(done, of):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        doorbell.sweep("mlx5-pktgen-64", OVER, set=SHORT, progress=fails)


def test_progress_is_a_line(capsys):
    doorbell.sweep("mlx5-pktgen-64", OVER, set=SHORT, progress=True)
    assert capsys.readouterr().err.endswith("\r4 of 4\n")


def test_sides_are_ranked():
    sides = {"on": {"driver.mpwqe": True}, "off": {"driver.mpwqe": False}}
    ranked = doorbell.rank("mlx5-pktgen-64", sides, "pcie_read_bytes", set=SHORT, show=["maps"])
    assert [(r.side, r.against_first) for r in ranked.rows] == [("on", ""), ("off", "dominated")]
    assert (ranked.rows[0].values["maps"], ranked.loads, ranked.runs) == (1.0, 1, None)
    few = {"traffic.duration": "20 ms"}
    controllers = {c: {"driver.controller": c} for c in ("dim", "trains")}
    ranked = doorbell.rank(
        "axienet-random", controllers, ["latency_ns.p99"], seeds=range(1, 4), set=few
    )
    assert (ranked.loads, [s.side for s in ranked.sides]) == (3, ["trains"])
    assert ranked.runs == 3 and ranked.rows == ()
    with pytest.raises(doorbell.InputError, match="sides: it is empty"):
        doorbell.rank("axienet-random", {}, "cycles")
    with pytest.raises(doorbell.InputError, match="expected seeds one after another"):
        doorbell.rank("axienet-random", controllers, "cycles", seeds=range(0, 9, 2))


def test_a_budget_is_a_test(tmp_path):
    budget = tmp_path / "budget.toml"
    text = 'scenario = "mlx5-pktgen-64"\n[set]\n"traffic.packets" = 480\n[budget]\n'
    budget.write_text(text + "maps = { exact = 1 }\n")
    held = doorbell.check(budget)
    assert held and held.broken == () and "1 limits hold" in repr(held)
    budget.write_text(text + "maps = { max = 0.5 }\nunmaps = 1\n")
    broken = doorbell.check(budget)
    assert not broken and [r.name for r in broken.broken] == ["maps"]
    assert "maps is 1, allowed is max 0.5" in repr(broken)
    # A result that is there.
    result = doorbell.run("mlx5-pktgen-64", set=SHORT, limits=False)
    assert doorbell.check(budget, report=result).broken[0].measured == 1.0
    with pytest.raises(doorbell.InputError, match="No such file"):
        doorbell.check(tmp_path / "none.toml")


def test_the_version_has_its_commit():
    program = pathlib.Path(sys.executable).with_name("doorbell")
    said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    version, _, commit = doorbell.__version__.partition("+")
    assert said == f"doorbell {version} ({commit})\n"
    swept = doorbell.sweep("mlx5-pktgen-64", {"traffic.burst": [1]}, set=SHORT)
    assert swept.origin["doorbell"]["commit"] == commit


@pytest.mark.frames
def test_the_examples_of_docstrings_run():
    tried = 0
    for module in ("_catalog", "_commands", "_files", "_results"):
        done = doctest.testmod(importlib.import_module(f"doorbell.{module}"))
        assert done.failed == 0
        tried += done.attempted
    assert tried > 20


def test_a_script_of_a_person_runs():
    script = pathlib.Path(__file__).with_name("user.py")
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_points_are_the_sweep_and_run_once(tmp_path, capfd):
    lines = doorbell.plan("mlx5-pktgen-64", OVER, set=SHORT)
    whole = doorbell.sweep("mlx5-pktgen-64", OVER, set=SHORT, cache=tmp_path / "c")
    kept = sorted((tmp_path / "c").rglob("*"))
    halves = [doorbell.point(half, cache=tmp_path / "c") for half in (lines[:3], lines[3:])]
    assert pyarrow.concat_tables(h.table for h in halves).equals(whole.table)
    assert sorted((tmp_path / "c").rglob("*")) == kept and len(kept) > 4
    assert [json.loads(line)["key"] for line in lines] == whole.table["key"].to_pylist()
    assert capfd.readouterr() == ("", ""), "nothing but the results"


def test_a_plan_needs_its_capture_as_a_file():
    with pytest.raises(TypeError, match="has to be a file"):
        doorbell.plan("mlx5-replay", {"pcie.mps": [128]}, capture=b"")


def test_a_mistake_tells_place_and_what_is_allowed(tmp_path):
    with pytest.raises(doorbell.InputError, match="allowed: 128, 256") as caught:
        doorbell.run("mlx5-pktgen-64", set={"pcie.mps": 3})
    assert (caught.value.place, caught.value.line) == ("set['pcie.mps']", None)
    file = tmp_path / "mine.toml"
    file.write_text(
        'name = "m"\nabout = "m"\nsystem = "mlx5"\nprofile = "mlx5-gen3"\n[pcie]\nx = 3\n'
    )
    with pytest.raises(ValueError, match="x") as caught:
        doorbell.run(file)
    assert (caught.value.file, caught.value.line) == (str(file), 6)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.line) == (str(caught.value), 6)
    with pytest.raises(doorbell.InputError, match="nearest is `maps`"):
        doorbell.advise("mlx5-pktgen-64", goal="map")
    with pytest.raises(doorbell.InputError, match="No such file"):
        doorbell.run("mlx5-replay", capture=tmp_path / "none.pcap")
    with pytest.raises(doorbell.InputError, match="not a directory"):
        doorbell.sweep("mlx5-pktgen-64", OVER, set=SHORT, cache=file)
    assert os.listdir(tmp_path) == ["mine.toml"]


def test_a_capture_is_a_path_or_bytes_or_packets(tmp_path):
    file = tmp_path / "wire.pcap"
    inner = IP(dst="10.0.0.2") / UDP(dport=9)
    frames = [Ether(dst="02:00:00:00:00:01") / inner / bytes(n) for n in (18, 100, 1400)]
    packets = doorbell.run("mlx5-replay", capture=frames, set={"traffic.rounds": 4}, limits=False)
    assert packets.packets == 12
    wrpcap(str(file), frames, nano=True)
    rounds = {"traffic.rounds": 4}
    for capture in (file, str(file), file.read_bytes()):
        again = doorbell.run("mlx5-replay", capture=capture, set=rounds, limits=False)
        assert again.ledger == packets.ledger
        assert again.json["capture_sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    # A file that was written anew is read anew.
    wrpcap(str(file), frames[:2], nano=True)
    assert doorbell.run("mlx5-replay", capture=file, set=rounds, limits=False).packets == 8


def test_a_profile_is_an_object_with_units():
    gen3 = doorbell.Profile.load("mlx5-gen3")
    assert (gen3.name, gen3.system) == ("mlx5-gen3", "mlx5")
    latency = gen3.constants["pcie.memory_latency"]
    assert latency.unit == "ns" and latency.source
    slow = gen3.replace("pcie.memory_latency", 3, unit="us", source="assumed: to see it")
    own, far = (
        doorbell.run("mlx5-pktgen-64-gen3", profile=p, set=SHORT, limits=False)
        for p in (gen3, slow)
    )
    named = doorbell.run("mlx5-pktgen-64-gen3", profile="mlx5-gen3", set=SHORT, limits=False)
    assert own.rates == named.rates and own.json["profile_sha256"] == named.json["profile_sha256"]
    assert far.settings["pcie.memory_latency"] == "3000 ns"
    assert far.latency_ns["p50"] > own.latency_ns["p50"]
    with pytest.raises(doorbell.InputError, match="no profile is called"):
        doorbell.Profile.load("mlx5-gen9")


def test_a_scenario_is_an_object():
    settings = {"traffic.kind": "pktgen", "traffic.packets": 480, "traffic.size": "128 B"}
    for profile in ("mlx5-gen3", doorbell.Profile.load("mlx5-gen3")):
        mine = doorbell.Scenario("mine", "mlx5", profile, settings)
        result = doorbell.run(mine, limits=False)
        assert (result.scenario, result.profile) == ("mine", "mlx5-gen3")
        assert result.settings["traffic.size"] == "128 B"
    wrong = doorbell.Scenario("mine", "mlx5", "mlx5-gen3", {"traffic.sise": "128 B"})
    with pytest.raises(doorbell.InputError, match="traffic.size") as caught:
        doorbell.run(wrong)
    assert caught.value.line == 7


def test_a_scenario_is_loaded_and_compared(tmp_path):
    known = doorbell.Scenario.load("mlx5-pktgen-64-gen3")
    assert (known.name, known.system, known.profile) == ("mlx5-pktgen-64-gen3", "mlx5", "mlx5-gen3")
    assert known.settings["traffic.rate"] == "56.064 Mpps" and "64-byte" in known.about
    short = known.replace(SHORT)
    named = doorbell.run("mlx5-pktgen-64-gen3", set=SHORT, limits=False)
    assert doorbell.run(short, limits=False).rates == named.rates
    both = doorbell.compare(short, short.replace({"driver.mpwqe": False, "driver.sizing": None}))
    assert (both.a.scenario, both.b.scenario) == ("mlx5-pktgen-64-gen3",) * 2
    assert both.per_packet["pcie_read_bytes"].ratio > 1
    # Files that a file names are found from anywhere.
    (tmp_path / "machine.toml").write_text(doorbell.Profile.load("mlx5-gen3").toml())
    (tmp_path / "frames.pcap").write_bytes(b"no capture")
    file = tmp_path / "mine.toml"
    file.write_text(
        'name = "m"\nabout = "m"\nsystem = "mlx5"\nprofile = "machine.toml"\n'
        '[traffic]\nkind = "pcap"\nfile = "frames.pcap"\n'
    )
    mine = doorbell.Scenario.load(file)
    assert mine.profile == str(tmp_path / "machine.toml")
    assert mine.settings["traffic.file"] == str(tmp_path / "frames.pcap")
    with pytest.raises(doorbell.InputError, match="no scenario is called"):
        doorbell.Scenario.load("mlx5-pktgen-65")


def test_advice_fit_and_figures_are_dataclasses(tmp_path):
    advice = doorbell.advise(
        "mlx5-pktgen-64", goal="pcie_read_bytes", over={"driver.mpwqe": ["off", "on"]}, set=SHORT
    )
    assert advice.goal == "pcie_read_bytes" and advice.reached.to <= advice.reached.from_
    assert all(s.key == "driver.mpwqe" and s.from_ != s.to for s in advice.settings)
    file = tmp_path / "m.toml"
    file.write_text(
        'name = "m"\nabout = "m"\nprofile = "mlx5-gen3"\n[[constant]]\nkey = "cpu.stack"\n'
        '[[row]]\nscenario = "mlx5-pktgen-64-gen3"\nset = ["traffic.packets=4800"]\n'
        'metric = "packets_per_s"\nvalue = 10\nunit = "Mpps"\nsource = "made up"\n'
    )
    fitted = doorbell.fit(file, out=tmp_path / "mine.toml")
    assert (fitted.constants[0].constant, fitted.rows[0].measured) == ("cpu.stack", 1e7)
    assert doorbell.Profile.load(tmp_path / "mine.toml").name == "mine"


def test_threads_run_side_by_side():
    """The interpreter's lock is free: another thread goes on while a run lasts."""
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(1)

    thread = threading.Thread(target=tick)
    thread.start()
    before = len(ticks)
    doorbell.run("mlx5-pktgen-64", set={"traffic.packets": 240_000}, limits=False)
    during = len(ticks) - before
    stop.set()
    thread.join()
    assert during > 1000


@pytest.mark.parametrize("what", ["run", "sweep", "reproduce"])
def test_ctrl_c_ends_a_command(tmp_path, what):
    script = f"""
import doorbell, signal
# A shell's background jobs ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
print("begun", flush=True)
long = {{"traffic.packets": 1_000_000_000}}
try:
    if {what!r} == "run":
        doorbell.run("mlx5-pktgen-64", set=long)
    elif {what!r} == "reproduce":
        doorbell.reproduce()
    else:
        doorbell.sweep("mlx5-pktgen-64", {{"pcie.mps": [128, 256]}}, set=long, cache="c")
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(doorbell.run("mlx5-pktgen-64", set={{"traffic.packets": 480}}).packets)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    try:
        assert child.stdout.readline() == "begun\n"
        threading.Timer(0.5, child.send_signal, [signal.SIGINT]).start()
        out, _ = child.communicate(timeout=60)
    finally:
        child.kill()
    assert (out, child.returncode) == ("interrupted\n480\n", 0)
    assert not [p for p in pathlib.Path(tmp_path).rglob("*") if p.is_file()]


@pytest.mark.frames
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_table_goes_to_a_data_frame(library):
    frames = importlib.import_module(library)
    swept = doorbell.sweep("mlx5-pktgen-64", OVER, set=SHORT)
    frame = swept.table.to_pandas() if library == "pandas" else frames.from_arrow(swept.table)
    assert list(frame["pcie.mps"]) == [128, 128, 256, 256]
    assert list(frame["pcie_read_bytes"]) == swept.table["pcie_read_bytes"].to_pylist()


@pytest.mark.frames
def test_frames_have_units_and_settings():
    numpy, pandas = importlib.import_module("numpy"), importlib.import_module("pandas")
    over = {"pcie.mps": numpy.array([128, 256]), "driver.mpwqe": numpy.array([False, True])}
    swept = doorbell.sweep("mlx5-pktgen-64", over, set={"traffic.packets": numpy.int64(480)})
    frame = swept.to_pandas()
    assert frame[frame["driver.mpwqe"]]["pcie.mps"].tolist() == [128, 256]
    assert frame.attrs["units"]["pcie.mps"] == "B"
    assert frame.attrs["settings"]["traffic.packets"] == "480 packets"
    assert swept.to_polars()["driver.mpwqe"].to_list() == [False, True] * 2
    grid = swept.to_xarray(["pcie_read_bytes"])
    assert dict(grid.sizes) == {"pcie.mps": 2, "driver.mpwqe": 2}
    assert grid["pcie_read_bytes"].attrs["units"] == grid["pcie.mps"].attrs["units"] == "B"
    assert grid["pcie.mps"].attrs["long_name"] == "Max_Payload_Size"
    assert grid.attrs["traffic.packets"] == "480 packets"
    one = grid["pcie_read_bytes"].sel({"pcie.mps": 256, "driver.mpwqe": True}).item()
    assert one == swept.table["pcie_read_bytes"][3].as_py()
    assert "cycles" in swept.to_xarray()
    with pytest.raises(KeyError, match="nearest is `cycles`"):
        swept.to_xarray(["cycle"])
    # Scalars of numpy and pandas, wherever a value is.
    series = pandas.Series([1, 8])
    assert doorbell.sweep("mlx5-pktgen-64", {"traffic.burst": series}).table.num_rows == 2
    scenario = doorbell.Scenario.load("mlx5-pktgen-64").replace({"traffic.burst": numpy.int64(4)})
    profile = doorbell.Profile.load("mlx5-gen2").replace("pcie.tags", numpy.float64(2))
    changed = {**SHORT, "driver.mpwqe": numpy.bool_(False)}
    result = doorbell.run(scenario, profile=profile, set=changed, limits=False)
    assert result.settings["driver.mpwqe"] == "off" and result.settings["pcie.tags"] == "2 tags"


def test_the_program_comes_with_the_package():
    program = pathlib.Path(sys.executable).with_name("doorbell")

    def ran(*args):
        return subprocess.run([program, *args], capture_output=True, text=True)

    assert ran("--version").stdout.startswith("doorbell ")
    refused = ran("guest", "mlx4")
    assert refused.returncode == 2
    assert refused.stderr.startswith("doorbell: no device is called `mlx4`")


def test_the_program_serves_as_a_module_of_python(tmp_path):
    # `doorbell guest` starts it so.
    socket = tmp_path / "socket"
    line = ["serve", "e1000", "--socket", str(socket), "--format", "json", "--quiet"]
    server = subprocess.Popen([sys.executable, "-m", "doorbell", *line], stdout=subprocess.PIPE)
    while not socket.exists():
        assert server.poll() is None
        time.sleep(0.01)
    server.terminate()
    assert json.loads(server.communicate()[0])["clients"] == 0
    assert server.returncode == 0
