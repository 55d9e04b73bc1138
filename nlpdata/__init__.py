"""Data preparation for BERT-family encoders: text to TFRecords."""
