"""The notebook of the docs, run as Jupyter runs it."""

import re
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebook.ipynb"


@pytest.mark.slow
def test_from_a_dataframe_to_predictions_without_leaving_the_notebook(tmp_path):
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=500, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [
        output.data["text/html"]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "execute_result"
    ]
    frame, starter, summary, inspection, report, predictions = shown
    assert "<table" in frame
    assert "target      progression: a quantity" in starter
    assert "442 read = 442 written" in summary
    assert "blessed     yes" in summary
    assert re.search(r"Split-train: \d files?, .* records \(counted\)", inspection)
    assert report.startswith("<iframe srcdoc=")
    assert "progression" in report
    assert "prediction</th>" in predictions
    assert (tmp_path / "diabetes/predictions.parquet").exists()
