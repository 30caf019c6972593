"""The notebooks of examples/notebooks: they run, and print what they have printed.

`NOTEBOOKS=write` runs them whole and keeps what they print and draw.
"""

import contextlib
import os
import pathlib

import pytest

pytestmark = pytest.mark.notebooks

KEPT = pathlib.Path(__file__).parents[3] / "examples" / "notebooks"
WRITE = os.environ.get("NOTEBOOKS") == "write"
# A notebook of minutes runs with fewer points, and prints other numbers than those that are kept.
SMALL = {"moderation": {"SEEDS": "100"}}


def outputs(notebook):
    """Returns what was printed, and how many images were drawn, by cell."""
    cells = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    printed = [[o["text"] for o in cell if o.output_type == "stream"] for cell in cells]
    drawn = [sum("image/png" in o.get("data", {}) for o in cell) for cell in cells]
    return printed, drawn


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_prints_what_is_kept(path, tmp_path, monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    small = {} if WRITE else SMALL.get(path.stem, {})
    for name, value in small.items():
        monkeypatch.setenv(name, value)
    notebook = nbformat.read(path, as_version=4)
    kept = outputs(notebook)
    NotebookClient(notebook, timeout=None, resources={"metadata": {"path": tmp_path}}).execute()
    if WRITE:
        for cell in notebook.cells:
            # Times of day.
            cell.metadata.pop("execution", None)
        nbformat.write(notebook, path)
        return
    printed, drawn = outputs(notebook)
    assert drawn == kept[1] and sum(drawn) >= 2
    if not small:
        assert printed == kept[0]


def test_an_interrupted_cell_leaves_nothing_half_written(tmp_path):
    from jupyter_client import KernelManager

    kernel = KernelManager()
    kernel.start_kernel(cwd=tmp_path)
    client = kernel.client()
    client.start_channels()
    said = []

    def run(code, heard=lambda text: None):
        def hook(message):
            content = message["content"]
            if "text" in content:
                heard(content["text"])
                said.append(content["text"])

        reply = client.execute_interactive(code, timeout=600, output_hook=hook)
        return reply["content"]

    try:
        client.wait_for_ready(timeout=600)
        assert run("import doorbell")["status"] == "ok"
        sweep = """
print("begun", flush=True)
doorbell.sweep("mlx5-pktgen-64", {"pcie.mps": [128, 256]}, cache="kept",
    set={"traffic.packets": 1_000_000_000})
"""
        ended = run(sweep, lambda text: kernel.interrupt_kernel())
        assert (ended["status"], ended["ename"]) == ("error", "KeyboardInterrupt")
        assert not [p for p in tmp_path.rglob("*") if p.is_file()]
        # The kernel goes on.
        more = 'print(doorbell.run("mlx5-pktgen-64", set={"traffic.packets": 480}).packets)'
        assert run(more)["status"] == "ok" and said[-1].strip() == "480"
    finally:
        client.stop_channels()
        with contextlib.suppress(Exception):
            kernel.shutdown_kernel(now=True)
