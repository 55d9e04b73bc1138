"""Options of the built-in encoders, in one import."""

from pretrain.encoders.families.albert import AlbertConfig
from pretrain.encoders.families.bert import BertConfig
from pretrain.encoders.families.mobilebert import MobileBertConfig

__all__ = ["AlbertConfig", "BertConfig", "MobileBertConfig"]
