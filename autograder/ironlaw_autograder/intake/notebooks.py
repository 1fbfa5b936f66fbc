"""A notebook from the bytes of a file, whatever a student made of it."""

from __future__ import annotations

import json
from typing import Any

import nbformat
from nbformat import NotebookNode, v4

from ..build.stamp import KEY, Stamp
from ..build.stamp import read as read_stamp

MAX_BYTES = 30_000_000
MAX_CELLS = 5_000

_RECORD = {"cell_type", "checksum", "grade", "grade_id", "locked", "points", "schema_version",
           "solution", "task"}


def read_notebook(data: bytes) -> NotebookNode:
    """The notebook in `data`; `ValueError` says in words what is wrong with it."""
    return read_stamped(data)[0]


def read_stamped(data: bytes) -> tuple[NotebookNode, Stamp]:
    """The notebook in `data` and the version that it says it is; `ValueError` as above."""
    if not data.strip():
        raise ValueError("the file is empty")
    if len(data) > MAX_BYTES:
        raise ValueError(f"the file is larger than {MAX_BYTES / 1e6:.0f} MB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("the file is not UTF-8 text") from None
    if text.lstrip()[:1] == "<":
        raise ValueError("the file is a web page, not a notebook; download the .ipynb itself")
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"the file is cut off or damaged ({problem})") from None
    if isinstance(raw, dict) and isinstance(raw.get("worksheets"), list):
        raise ValueError("the file is a notebook of format 3; open it in JupyterLab and save it")
    if not isinstance(raw, dict) or not isinstance(raw.get("cells"), list):
        raise ValueError("the file is JSON, but not a notebook with cells")
    if len(raw["cells"]) > MAX_CELLS:
        raise ValueError(f"the notebook has {len(raw['cells']):,} cells; more than {MAX_CELLS:,} "
                         "are not read")
    made = v4.new_notebook()
    made.cells = [_cell(cell, f"cell-{place}") for place, cell in enumerate(raw["cells"])
                  if isinstance(cell, dict)]
    stamp = read_stamp(raw.get("metadata"))
    if stamp:
        made.metadata[KEY] = stamp.to_metadata()
    return made, stamp


def labels(notebook: NotebookNode) -> set[str]:
    """The labels that a submission still carries."""
    return {cell.metadata.nbgrader.grade_id for cell in notebook.cells
            if "nbgrader" in cell.metadata}


def _cell(raw: dict[str, Any], name: str) -> NotebookNode:
    """A cell's type, text and label; everything else that a file may carry is dropped."""
    # nbformat's own makers check each cell against the schema, which takes most of the time.
    source = raw.get("source", "")
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    text = source.encode("utf-8", "replace").decode() if isinstance(source, str) else ""
    kind = raw.get("cell_type") if raw.get("cell_type") in ("code", "raw") else "markdown"
    made = NotebookNode(id=name, cell_type=kind, metadata=NotebookNode(), source=text)
    if kind == "code":
        made.update(execution_count=None, outputs=[])
    metadata = raw.get("metadata")
    record = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    if isinstance(record, dict) and isinstance(record.get("grade_id"), str):
        kept = {key: value for key, value in record.items()
                if key in _RECORD and isinstance(value, str | int | float | bool)}
        made.metadata["nbgrader"] = nbformat.from_dict(kept)
    return made
