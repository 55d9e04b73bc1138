"""How a written checkpoint is loaded: short programs for its model card, which are run in its folder."""

from pretrain.converters.checkpoint import Checkpoint
from pretrain.converters.heads import CHOICE, heads_of

TEXT, MASKED = "Some text.", "Some text with a {} in it."
QUESTION = ("Who eats berries?", "The fox eats berries.")
CHOICES = ("The fox eats berries.", "Who eats berries?", ["The dog.", "The fox."])


def head_for(checkpoint: Checkpoint) -> str:
    """What the model is for: the first of classifier, span, choice, masked_lm that it has; "": its vectors."""
    heads = heads_of(checkpoint.weights)
    return next((name for name in ("classifier", "span", CHOICE, "masked_lm") if name in heads), "")


def example_ids(checkpoint: Checkpoint) -> list[int]:
    """Ids of a short text, for a program without a tokenizer."""
    if checkpoint.tokenizer is None:
        return [1, 2, 3]
    tokenizer = checkpoint.tokenizer
    return [tokenizer.cls_id, tokenizer.unk_id, tokenizer.sep_id]


def in_pretrain(checkpoint: Checkpoint, place: str = ".") -> str:
    """A program that loads `place` with pretrain."""
    lines = ["import numpy as np", "", "import pretrain", "", f'model = pretrain.load("{place}")']
    head = head_for(checkpoint)
    if checkpoint.tokenizer is None:
        ids = example_ids(checkpoint)
        lines += [f"ids = np.array([{ids}], np.int32)  # of the tokenizer that it was trained with"]
        lines += [
            'outputs = model({"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)})'
        ]
        return "\n".join([*lines, "print({name: value.shape for name, value in outputs.items()})"])
    call = {
        "classifier": f'print(model.predict(["{TEXT}"]))',
        "span": f'print(model.predict([("{QUESTION[0]}", "{QUESTION[1]}")]))',
        CHOICE: f'print(model.predict([("{CHOICES[0]}", "{CHOICES[1]}", {list(CHOICES[2])})]))',
        "masked_lm": f'print(model.predict(["{MASKED.format("[MASK]")}"]))',
        "": f'print(model.embed(["{TEXT}"]).shape)',
    }[head]
    return "\n".join([*lines[2:], call])
