"""Predictions of a fine-tuned model for a file: texts to classes, questions to answers."""
