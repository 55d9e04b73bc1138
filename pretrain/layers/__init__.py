"""Layers of BERT-family encoders, in keras.ops; they take plain numbers. Backend code: attention.py and dropout.py only."""
