"""Files and arguments that are wrong on purpose: an error in words, and no wait."""

import json
import math
import os

import pytest

import doorbell
from doorbell import _dask

SHORT = {"traffic.packets": 480}


class Frame:
    def __init__(self, time):
        self.time = time

    def __bytes__(self):
        return bytes(60)


@pytest.mark.parametrize("time", [math.nan, math.inf, -math.inf, -1, 2**32, 1e308])
def test_a_frame_at_an_impossible_time_is_refused(time):
    with pytest.raises(doorbell.InputError, match="frame 1: its time"):
        doorbell.run("mlx5-replay", capture=[Frame(0.5), Frame(time)])


@pytest.mark.parametrize("name", ["--help", "--set=pcie.mps=128", "-q", "-"])
def test_a_name_is_no_option(name):
    for call in (
        doorbell.run,
        doorbell.fit,
        lambda name: doorbell.compare(name, "mlx5-pktgen-64", change={"driver.mpwqe": False}),
        lambda name: doorbell.run("mlx5-pktgen-64", profile=name),
    ):
        with pytest.raises(doorbell.InputError, match="a name does not begin with"):
            call(name)


def test_control_characters_do_not_reach_a_terminal(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text(
        'name = "s"\nabout = "s"\nsystem = "mlx5"\nprofile = "mlx5-gen2"\n'
        '[traffic]\n"\\u001b[31mx\\u202e" = 1\n'
    )
    with pytest.raises(doorbell.InputError) as caught:
        doorbell.run(file)
    assert r"traffic.\u{1b}[31mx\u{202e}" in str(caught.value)
    assert str(caught.value).isprintable()
    assert "\x1b" in caught.value.what and caught.value.line == 6


@pytest.mark.parametrize("name", ["fifo", "zero", "dir"])
def test_what_is_no_regular_file_is_refused(name, tmp_path):
    os.mkfifo(tmp_path / "fifo.toml")
    (tmp_path / "zero.toml").symlink_to("/dev/zero")
    (tmp_path / "dir.toml").mkdir()
    file = tmp_path / f"{name}.toml"
    for call in (
        doorbell.run,
        doorbell.Profile.load,
        doorbell.Scenario.load,
        doorbell.fit,
        lambda file: doorbell.run("mlx5-pktgen-64", profile=file),
    ):
        with pytest.raises(doorbell.InputError):
            call(file)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[" * 10**5,
        "{}",
        "\x00",
        '{"points": "p"}',
        *(f'{{"points": "p", "chunk": {n}}}' for n in ("0", "-5", "1.5", "true", '"7"', "null")),
    ],
)
def test_a_damaged_start_of_a_dataset_is_told(text, tmp_path):
    about = tmp_path / _dask.ABOUT
    about.write_text(text)
    with pytest.raises(doorbell.InputError, match="it is damaged"):
        _dask._begun(about, "p")


def test_a_dataset_goes_on_with_its_own_points_alone(tmp_path):
    about = tmp_path / _dask.ABOUT
    about.write_text(json.dumps({"points": "p", "chunk": 7}))
    assert _dask._begun(about, "p") == 7
    with pytest.raises(doorbell.InputError, match="another sweep"):
        _dask._begun(about, "q")
    about.unlink()
    os.mkfifo(about)
    with pytest.raises(doorbell.InputError, match="no regular file"):
        _dask._begun(about, "p")


def test_a_part_that_is_cut_short_is_made_again(tmp_path):
    import pyarrow
    import pyarrow.parquet

    part = tmp_path / "part.parquet"
    assert not _dask._is_whole(part)
    pyarrow.parquet.write_table(pyarrow.table({"a": [1, 2, 3]}), part)
    assert _dask._is_whole(part)
    content = part.read_bytes()
    for n in (0, 3, 11, len(content) // 2, len(content) - 1):
        part.write_bytes(content[:n])
        assert not _dask._is_whole(part), n


def test_a_chunk_of_no_points_is_refused(tmp_path):
    for chunk in (0, -1):
        with pytest.raises(doorbell.InputError, match="from 1 on"):
            doorbell.sweep(
                "mlx5-pktgen-64",
                {"traffic.burst": [1]},
                client=object(),
                out=tmp_path,
                chunk=chunk,
            )
