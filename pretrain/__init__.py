"""Pretraining and fine-tuning of BERT-family encoders: records to weights to scores."""
