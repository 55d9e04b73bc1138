"""Apache Beam pipelines over the functions of nlpdata: the same bytes as the local executor, on many machines.

    nlpdata create-pretraining ... --runner FlinkRunner -- --job_endpoint host:8099

`pretraining.py` is one graph, `steps.py` its steps, `pieces.py` what goes between them; `finetuning.py` is the other, all of
it; `commands.py` names them, `runner.py` the runners and their options, `job.py` the job of a dry run, and `faults.py` is how
a user's fault finds its way back from a worker.
"""

import logging

logging.disable(logging.WARNING)  # Beam warns of Google's client libraries, which nothing here needs, when imported
import apache_beam  # noqa: E402, F401

logging.disable(logging.NOTSET)
