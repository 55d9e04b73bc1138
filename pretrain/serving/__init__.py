"""What a served model needs beyond its weights: tokenizers as graphs."""
