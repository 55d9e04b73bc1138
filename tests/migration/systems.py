"""The systems that have a page in docs/migration."""

from tests.migration.albert_tf2 import SYSTEM as ALBERT_TF2
from tests.migration.cerebras import SYSTEM as CEREBRAS
from tests.migration.chain import System
from tests.migration.gcp_sample import SYSTEM as GCP_SAMPLE
from tests.migration.google_albert import SYSTEM as GOOGLE_ALBERT
from tests.migration.google_bert import SYSTEM as GOOGLE_BERT
from tests.migration.hf_run_glue import SYSTEM as HF_RUN_GLUE
from tests.migration.hf_run_mlm import SYSTEM as HF_RUN_MLM
from tests.migration.hf_run_qa import SYSTEM as HF_RUN_QA
from tests.migration.hf_run_swag import SYSTEM as HF_RUN_SWAG
from tests.migration.model_garden import SYSTEM as MODEL_GARDEN

SYSTEMS: tuple[System, ...] = (
    GOOGLE_BERT,
    GOOGLE_ALBERT,
    HF_RUN_MLM,
    HF_RUN_GLUE,
    HF_RUN_QA,
    HF_RUN_SWAG,
    MODEL_GARDEN,
    CEREBRAS,
    ALBERT_TF2,
    GCP_SAMPLE,
)


def index() -> str:
    """The page that lists the others."""
    lines = [f"- [{system.title}]({system.name}.md)" for system in SYSTEMS]
    return (
        "# Coming from another system\n\n"
        "Where a script has one program here, its command runs with only the program's name changed: options, file names and\n"
        "the order of the steps stay. Each page has the commands of the other system's documents, and ours; the tests run ours\n"
        "from text to score, on small data. The pages on Google's and Transformers' scripts also list all flags,\n"
        "both defaults, and what to set for the same numbers.\n\n" + "\n".join(lines) + "\n"
    )
