"""A configuration that describes more weights than a file can hold is refused before memory is taken for them."""

from nlpdata.errors import DataError
from pretrain.converters.checkpoint import Checkpoint
from pretrain.converters.weights import MOST_LAYERS
from pretrain.settings.fields import Choice

_SIZES = (
    *("vocab_size", "embedding_size", "hidden_size", "intra_bottleneck_size", "intermediate_size"),
    *("num_hidden_layers", "num_hidden_groups", "max_position_embeddings"),
)


def check_sizes(checkpoint: Checkpoint) -> None:
    """DataError where the configuration describes more weights than there are, before memory is taken for them."""
    arrays = [array for path, array in checkpoint.weights.items() if path.startswith("encoder/")]
    there = sum(array.size for array in arrays)
    if arrays:
        what = f"its {len(arrays)} weights of {there} numbers are"
        refuse_larger(checkpoint.known_encoder, len(arrays), there, checkpoint.source, what)


def refuse_larger(encoder: Choice, tensors: int, numbers: int, source: str, what: str) -> None:
    """DataError where an encoder needs more weights than a file holds.

    Args:
      encoder: the configuration.
      tensors: number of tensors that the file holds.
      numbers: of all its tensors together.
      source: what is read, for messages.
      what: these two in words, with their verb, e.g. "its 25 weights of 1000 numbers are".
    """
    options = encoder.options
    size = {name: getattr(options, name, 0) or 0 for name in _SIZES}
    width = size["intra_bottleneck_size"] or size["hidden_size"]
    layers = size["num_hidden_groups"] or size["num_hidden_layers"]
    for names, wanted, limit in (
        ("hidden_size", size["hidden_size"] * width, numbers),
        ("vocab_size", size["vocab_size"] * (size["embedding_size"] or size["hidden_size"]), numbers),
        ("max_position_embeddings", size["max_position_embeddings"] * (size["embedding_size"] or width), numbers),
        ("intermediate_size", size["intermediate_size"] * width, numbers),
        ("num_hidden_layers", layers, tensors),
        ("num_hidden_layers", size["num_hidden_layers"], MOST_LAYERS),
    ):
        if wanted > limit:
            raise DataError(
                f"{source}: its configuration has {names} {size[names]}, for which {what} too few. Is it the configuration of "
                "another model?"
            )
