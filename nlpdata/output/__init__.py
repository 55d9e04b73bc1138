"""Where results go: which files are a set's own, what is refused, the work folder, and the commit that makes a set whole.

Work is done in `.<stem>.work` next to the output, keyed by a hash of everything that decides about the result. When all
files of the new set are finished there, the folder gets a journal of the commit. From then on an equal run only has to
complete the commit, however far it went: markers make readers refuse, the old set goes, the files take their places, the
meta files come last, the markers go, and then the work folder.
"""

from nlpdata.output.committing import FinishedSet, commit, complete, digest
from nlpdata.output.interruption import disk_errors
from nlpdata.output.naming import OutputSet, is_own, output_set, set_files, text_set
from nlpdata.output.refusal import check_output, refuse_output
from nlpdata.output.running import OutputRun
from nlpdata.output.work import WorkFolder, is_unfinished, shared_path, store_result, work_path

__all__ = [
    "FinishedSet",
    "OutputRun",
    "OutputSet",
    "WorkFolder",
    "check_output",
    "commit",
    "complete",
    "digest",
    "disk_errors",
    "is_own",
    "is_unfinished",
    "output_set",
    "refuse_output",
    "set_files",
    "shared_path",
    "store_result",
    "text_set",
    "work_path",
]
