"""Pretraining records: documents are cut into chunks, chunks become examples, examples become records.

`create.py` is the command, `plan.py` what it decides before it starts, `stages.py` what a worker does. `build.py` turns blocks of
text into records; `maker.py`, `assemble.py` and `masking.py` are its steps. `buckets.py` brings documents together, for
`random_next.py` and `packing.py`. `objectives/` has one file for each objective.
"""
