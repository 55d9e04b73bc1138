"""Apache Beam pipelines over the functions of nlpdata: the same bytes as the local executor, on many machines.

    nlpdata create-pretraining ... --runner FlinkRunner -- --job_endpoint host:8099

`pretraining.py` is the graph of create-pretraining, `steps.py` its steps, `pieces.py` what goes between them; `finetuning.py` is
create-finetuning, `vocabulary.py` train-tokenizer. `runner.py` has the runners and their options, `job.py` the job of a dry
run, `faults.py` how a user's fault finds its way back from a worker, `commands.py` the list of all this.
"""

import logging

logging.disable(logging.WARNING)  # Beam warns of Google's client libraries, which nothing here needs, when imported
import apache_beam  # noqa: E402, F401

logging.disable(logging.NOTSET)
