"""What a run leaves for people and programs to read: metrics.jsonl, run.json, TensorBoard's files, the line of progress."""
