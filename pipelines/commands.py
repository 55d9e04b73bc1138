"""The commands that are pipelines, and how `python -m pipelines.NAME` reads its options."""

from collections.abc import Sequence

from nlpdata.cli import commands as cli
from pipelines.runner import BeamParser

COMMANDS = {
    "split-sentences": "pipelines.splitting:split_sentences",
    "create-pretraining": "pipelines.pretraining:create_pretraining",
    "create-finetuning": "pipelines.finetuning:create_finetuning",
    "train-tokenizer": "pipelines.vocabulary:train_tokenizer",
}


def main(command: str, argv: Sequence[str]) -> int:
    """Runs a command of nlpdata with one list of options, Beam's among them, as Beam's users expect."""
    ours, beams, words = [], [], list(argv)
    known = BeamParser().options
    own = {name.replace("_", "-") for name in cli.option_names(command)}
    while words:
        word = words.pop(0)
        name, equals, _ = word.partition("=")
        action = known.get(name)
        if word == "--":
            beams += words
            break
        if action is None or name.replace("_", "-") in own:
            ours.append(word)
            continue
        beams.append(word)
        if not equals and action.nargs != 0 and words:
            beams.append(words.pop(0))
    if not any(word.partition("=")[0] == "--runner" for word in ours):
        ours.append("--runner=DirectRunner")
    return cli.main([command, *ours, "--", *beams])
