"""What is refused, or warned of, before the first step: settings, learning rates, records and weights that do not agree."""
