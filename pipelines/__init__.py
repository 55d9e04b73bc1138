"""Apache Beam pipelines over the functions of nlpdata: the same bytes as the local executor, on many machines.

    nlpdata create-pretraining ... --runner DataflowRunner -- --project p --region r --temp_location gs://b/tmp

`pretraining.py` is the graph, `steps.py` its steps, `pieces.py` what goes between them, `runner.py` the runners and
their options, `faults.py` how a user's fault finds its way back from a worker.
"""
