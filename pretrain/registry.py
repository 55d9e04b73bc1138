"""The tables of pretrain's parts: a name and "module:attribute", imported when first asked for. A new part is one line.

ENCODERS.get("albert")            the class AlbertEncoder; its attribute `config_class` is the dataclass of its options
ENCODERS.get("my.module:Encoder") a user's own part, without registering it

So that reading a configuration needs no Keras, which takes seconds to import, the built-in parts also name the dataclass of
their options in another module. What a table does: nlpdata.registry.
"""

from nlpdata.registry import Registry

ENCODERS = Registry(
    "encoder",
    {
        "bert": "pretrain.encoders.bert:BertEncoder",
        "albert": "pretrain.encoders.albert:AlbertEncoder",
        "mobilebert": "pretrain.encoders.mobilebert:MobileBertEncoder",
    },
    {
        "bert": "pretrain.encoders.families.bert:BertConfig",
        "albert": "pretrain.encoders.families.albert:AlbertConfig",
        "mobilebert": "pretrain.encoders.families.mobilebert:MobileBertConfig",
    },
)
# The two parts of an encoder's layers, by the encoder's options of these names.
ATTENTIONS = Registry(
    "attention",
    {
        "standard": "pretrain.layers.attention:SelfAttention",
        "talking_heads": "pretrain.layers.talking_heads:TalkingHeads",
    },
)
FEED_FORWARDS = Registry(
    "feed-forward part",
    {
        "standard": "pretrain.layers.feed_forward:FeedForward",
        "gated": "pretrain.layers.gated_feed_forward:GatedFeedForward",
    },
)
TASKS = Registry(
    "task",
    {
        "multiple_choice": "pretrain.tasks.multiple_choice:MultipleChoiceTask",
        "pretraining": "pretrain.tasks.pretraining:PretrainingTask",
        "question_answering": "pretrain.tasks.question_answering:QuestionAnsweringTask",
        "sentence_prediction": "pretrain.tasks.sentence_prediction:SentencePredictionTask",
    },
    {
        "multiple_choice": "pretrain.tasks.configs:MultipleChoiceConfig",
        "pretraining": "pretrain.tasks.configs:PretrainingConfig",
        "question_answering": "pretrain.tasks.configs:QuestionAnsweringConfig",
        "sentence_prediction": "pretrain.tasks.configs:SentencePredictionConfig",
    },
)
OPTIMIZERS = Registry(
    "optimizer",
    {
        "adamw": "pretrain.optimizers.adamw:AdamW",
        "lamb": "pretrain.optimizers.lamb:Lamb",
        "sgd": "pretrain.optimizers.sgd:Sgd",
        "adafactor": "pretrain.optimizers.adafactor:Adafactor",
    },
    {
        "adamw": "pretrain.optimizers.configs:AdamWConfig",
        "lamb": "pretrain.optimizers.configs:LambConfig",
        "sgd": "pretrain.optimizers.configs:SgdConfig",
        "adafactor": "pretrain.optimizers.configs:AdafactorConfig",
    },
)
SCHEDULES = Registry(
    "learning rate",
    {
        "constant": "pretrain.optimizers.schedules:Constant",
        "polynomial": "pretrain.optimizers.schedules:Polynomial",
        "cosine": "pretrain.optimizers.schedules:Cosine",
        "exponential": "pretrain.optimizers.schedules:Exponential",
        "inverse_sqrt": "pretrain.optimizers.schedules:InverseSquareRoot",
        "power": "pretrain.optimizers.schedules:Power",
        "stepwise": "pretrain.optimizers.schedules:Stepwise",
        "wsd": "pretrain.optimizers.schedules:WarmupStableDecay",
    },
    {
        "constant": "pretrain.optimizers.configs:ConstantConfig",
        "polynomial": "pretrain.optimizers.configs:PolynomialConfig",
        "cosine": "pretrain.optimizers.formulas:CosineConfig",
        "exponential": "pretrain.optimizers.formulas:ExponentialConfig",
        "inverse_sqrt": "pretrain.optimizers.formulas:InverseSquareRootConfig",
        "power": "pretrain.optimizers.formulas:PowerConfig",
        "stepwise": "pretrain.optimizers.formulas:StepwiseConfig",
        "wsd": "pretrain.optimizers.formulas:WarmupStableDecayConfig",
    },
)
WARMUPS = Registry(
    "warm-up",
    {
        "linear": "pretrain.optimizers.schedules:LinearWarmup",
        "polynomial": "pretrain.optimizers.schedules:PolynomialWarmup",
    },
    {
        "linear": "pretrain.optimizers.configs:LinearWarmupConfig",
        "polynomial": "pretrain.optimizers.configs:PolynomialWarmupConfig",
    },
)
TRAINERS = Registry(
    "trainer",
    {
        "default": "pretrain.training.trainer:Trainer",
        "progressive": "pretrain.training.stages.progressive:ProgressiveTrainer",
    },
)
ENGINES = Registry(
    "backend",
    {
        "jax": "pretrain.training.engines.jax_engine:JaxEngine",
        "tensorflow": "pretrain.training.engines.tensorflow_engine:TensorFlowEngine",
    },
)
# In the order of help, messages and documentation.
CHECKPOINT_FORMATS = Registry(
    "checkpoint format",
    {
        "native": "pretrain.converters.native:NativeFormat",
        "hf": "pretrain.converters.hugging_face:HuggingFaceFormat",
        "tf1": "pretrain.converters.tensorflow_checkpoint:TensorFlowFormat",
        "h5": "pretrain.converters.keras_h5:KerasH5Format",
        "savedmodel": "pretrain.converters.saved_model:SavedModelFormat",
        "hub": "pretrain.converters.hub_module:HubFormat",
    },
)
EXPERIMENTS = Registry(
    "experiment",
    {
        "albert/pretraining": "pretrain.experiments.pretraining:albert_pretraining",
        "bert/local": "pretrain.experiments.pretraining:bert_local",
        "albert/sentence_prediction": "pretrain.experiments.finetuning:albert_sentence_prediction",
        "bert/pretraining": "pretrain.experiments.pretraining:bert_pretraining",
        "bert/pretraining_dynamic": "pretrain.experiments.pretraining:bert_pretraining_dynamic",
        "bert/sentence_prediction": "pretrain.experiments.finetuning:bert_sentence_prediction",
        "bert/sentence_prediction_text": "pretrain.experiments.finetuning:bert_sentence_prediction",
        "albert/multiple_choice": "pretrain.experiments.finetuning:albert_multiple_choice",
        "bert/multiple_choice": "pretrain.experiments.finetuning:bert_multiple_choice",
        "albert/squad": "pretrain.experiments.finetuning:albert_squad",
        "bert/squad": "pretrain.experiments.finetuning:bert_squad",
    },
)
