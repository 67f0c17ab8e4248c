"""What a run did, read from its metadata store and artifacts: `collect(...)` and `render(...)`.

Being written by the founders' lead at this moment, with `summary_text.py`: do not write it again.
Use: `summary = collect(pipeline)`; `show(summary)`; `summary.to_json()`.
"""
