"""BERT, ALBERT and their heads once more, in float64 numpy, from the papers and weights by path."""

import math

import numpy as np

erf = np.vectorize(math.erf)
ACTIVATIONS = {
    "gelu": lambda x: x * 0.5 * (1 + erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "relu": lambda x: np.maximum(x, 0),
}
ACTIVATIONS["gelu_new"] = ACTIVATIONS["gelu_tanh"]


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Reference:
    """Arguments: config (BertConfig or AlbertConfig) and weights, path -> array."""

    def __init__(self, config, weights):
        self.config = config
        self.weights = {path: np.asarray(value, np.float64) for path, value in weights.items()}
        self.act = ACTIVATIONS[config.hidden_act]

    def dense(self, x, path):
        return x @ self.weights[f"{path}/kernel"] + self.weights[f"{path}/bias"]

    def norm(self, x, path):
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        x = (x - mean) / np.sqrt(variance + self.config.layer_norm_eps)
        return x * self.weights[f"{path}/layer_norm/gamma"] + self.weights[f"{path}/layer_norm/beta"]

    def layer(self, x, mask, path):
        heads = self.config.num_attention_heads
        batch, length, hidden = x.shape
        query, key, value = (
            self.dense(x, f"{path}/attention/{name}").reshape(batch, length, heads, hidden // heads)
            for name in ("query", "key", "value")
        )
        scores = np.einsum("bqhd,bkhd->bhqk", query, key) / math.sqrt(hidden // heads)
        talks = self.config.attention == "talking_heads"
        if talks:
            scores = np.einsum("bhqk,hg->bgqk", scores, self.weights[f"{path}/attention/pre_softmax"])
        probs = softmax(np.where(mask[:, None, None, :] == 1, scores, -np.inf))
        if talks:
            probs = np.einsum("bhqk,hg->bgqk", probs, self.weights[f"{path}/attention/post_softmax"])
        context = np.einsum("bhqk,bkhd->bqhd", probs, value).reshape(x.shape)
        x = self.norm(x + self.dense(context, f"{path}/attention/output"), f"{path}/attention")
        inner = self.act(self.dense(x, f"{path}/feed_forward/intermediate"))
        if self.config.feed_forward == "gated":
            inner = inner * self.dense(x, f"{path}/feed_forward/gate")
        return self.norm(x + self.dense(inner, f"{path}/feed_forward/output"), f"{path}/feed_forward")

    def layer_paths(self):
        config = self.config
        if not hasattr(config, "num_hidden_groups"):
            return [f"encoder/layer_{i}" for i in range(config.num_hidden_layers)]
        groups = [int(i / config.num_hidden_layers * config.num_hidden_groups) for i in range(config.num_hidden_layers)]
        return [f"encoder/group_{g}/layer_{j}" for g in groups for j in range(config.inner_group_num)]

    def __call__(self, inputs):
        table = self.weights["encoder/embeddings/word_embeddings"]
        x = table[inputs["input_ids"]]
        x = x + self.weights["encoder/embeddings/position_embeddings"][: x.shape[1]]
        x = x + self.weights["encoder/embeddings/token_type_embeddings"][inputs["segment_ids"]]
        x = self.norm(x, "encoder/embeddings")
        if "encoder/embedding_projection/kernel" in self.weights:
            x = self.dense(x, "encoder/embedding_projection")
        for path in self.layer_paths():
            x = self.layer(x, inputs["input_mask"], path)
        outputs = {"sequence_output": x, "pooled_output": np.tanh(self.dense(x[:, 0], "encoder/pooler"))}
        if "masked_lm_positions" in inputs:
            x = np.take_along_axis(x, inputs["masked_lm_positions"][..., None], 1)
        hidden = self.norm(self.act(self.dense(x, "masked_lm/transform")), "masked_lm")
        outputs["mlm_logits"] = hidden @ table.T + self.weights["masked_lm/output_bias"]
        outputs["sentence_logits"] = self.dense(outputs["pooled_output"], "sentence_pair/logits")
        return outputs
