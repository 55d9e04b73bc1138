"""Predictions of a fine-tuned model for texts."""
