"""Fields of transformers' config.json that are not options of an encoder: those that change what is computed, and the others."""

from collections.abc import Mapping
from typing import Any

# Of the base class: heads, tokens, files, training, generation of text. None changes what an encoder or its heads compute.
NO_EFFECT = frozenset(
    {
        *(
            "_attn_implementation_autoset",
            "_name_or_path",
            "_num_labels",
            "architectures",
            "attn_implementation",
            "bad_words_ids",
        ),
        *(
            "begin_suppress_tokens",
            "bos_token_id",
            "chunk_size_feed_forward",
            "classifier_dropout",
            "classifier_dropout_prob",
        ),
        *(
            "cls_token_id",
            "cross_attention_hidden_size",
            "decoder_start_token_id",
            "diversity_penalty",
            "do_sample",
            "dtype",
        ),
        *("early_stopping", "encoder_no_repeat_ngram_size", "eos_token_id", "exponential_decay_length_penalty"),
        *(
            "finetuning_task",
            "forced_bos_token_id",
            "forced_eos_token_id",
            "gradient_checkpointing",
            "id2label",
            "label2id",
        ),
        *(
            "length_penalty",
            "mask_token_id",
            "max_length",
            "min_length",
            "model_type",
            "no_repeat_ngram_size",
            "num_beam_groups",
        ),
        *(
            "num_beams",
            "num_labels",
            "num_return_sequences",
            "output_attentions",
            "output_hidden_states",
            "output_past",
        ),
        *("output_scores", "pad_token_id", "prefix", "problem_type", "remove_invalid_values", "repetition_penalty"),
        *(
            "return_dict",
            "return_dict_in_generate",
            "sep_token_id",
            "suppress_tokens",
            "task_specific_params",
            "temperature",
        ),
        *(
            "tf_legacy_loss",
            "tie_encoder_decoder",
            "tie_word_embeddings",
            "tokenizer_class",
            "top_k",
            "top_p",
            "torch_dtype",
        ),
        *(
            "torchscript",
            "transformers_version",
            "true_hidden_size",
            "typical_p",
            "unk_token_id",
            "use_bfloat16",
            "use_cache",
        ),
    }
)

# Fields with which other numbers come out, or another model's code computes them -> the only value that our encoders have.
_FIXED: Mapping[str, Any] = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "is_encoder_decoder": False,
    "add_cross_attention": False,
    "pruned_heads": {},
    "quantization_config": {},
    "auto_map": {},
}


def fixed_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a config.json -> the only value with which our encoders compute what transformers would.

    An encoder that has no embedding_size has embeddings of the hidden size.
    """
    return {**_FIXED, "embedding_size": fields.get("hidden_size")}
