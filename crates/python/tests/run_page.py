"""Runs the cells of docs/python.md in Jupyter's kernel, from start to end, and checks what they show."""

import pathlib
import re
import sys
import tempfile

import nbformat
from nbclient import NotebookClient

ROOT = pathlib.Path(__file__).resolve().parents[3]


def cells(page):
    """The blocks in Python."""
    return re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def shown(notebook, kind):
    """The outputs of this type, of all cells."""
    outputs = [output for cell in notebook.cells for output in cell.outputs]
    return [output.data[kind] for output in outputs if kind in output.get("data", {})]


def main():
    page = (ROOT / "docs" / "python.md").read_text()
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells(page)])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=300, resources={"metadata": {"path": folder}}).execute()
        figure = pathlib.Path(folder) / "buffers.pdf"
        assert figure.read_bytes().startswith(b"%PDF"), "no figure"
    charts, tables, figures = (shown(notebook, kind) for kind in ("image/svg+xml", "text/html", "image/png"))
    assert len(charts) == 1 and "<svg" in charts[0], f"{len(charts)} charts of a result"
    assert len(tables) == 1 and "flow.bulk.count" in tables[0], f"{len(tables)} tables"
    assert len(figures) == 2, f"{len(figures)} figures"
    said = "".join(output.text for cell in notebook.cells for output in cell.outputs if "text" in output)
    took = re.search(r"^45 points in .* s$", said, re.MULTILINE)
    assert took, said
    print(f"docs/python.md: {len(notebook.cells)} cells, {took[0]}")
    if len(sys.argv) > 1:
        nbformat.write(notebook, sys.argv[1])


main()
