"""Fine-tuning records: rows of data sets and tables become examples, examples become records.

`create.py` is the command, `plan.py` what it decides before it starts, `run.py` its work folder, `stages.py` what a worker does.
`datasets.py` names the data sets; each family has a file, such as `glue.py`. `encode.py` and `windows.py` lay examples out.
"""
