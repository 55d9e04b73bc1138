"""Apache Beam pipelines over the functions of nlpdata: the same bytes as the local executor, on many machines.

    nlpdata create-pretraining ... --runner FlinkRunner -- --job_endpoint host:8099

`pretraining.py` is the graph of create-pretraining, `steps.py` its steps, `runs.py` the elements between them; `finetuning.py` is
create-finetuning, `vocabulary.py` train-tokenizer, `splitting.py` split-sentences. `runner.py` has the runners and their options,
`endpoints.py` asks whether a server answers, `job.py` is the job of a dry run. `running.py` runs a job: `watching.py` ends it
early, `workers.py` has the worker processes of DirectRunner, `quiet.py` keeps what they write off the screen, `faults.py` brings a
fault back from a worker, `progress.py` shows progress. `commands.py` has the list of the commands.
"""

import logging

from nlpdata.cli.start import end_at_once_if_run

end_at_once_if_run("pipelines")
_before = logging.root.manager.disable  # what the user has switched off
# On import Beam warns about Google's client libraries, which nothing here needs.
logging.disable(max(_before, logging.WARNING))
try:
    import apache_beam  # noqa: F401
finally:
    logging.disable(_before)
