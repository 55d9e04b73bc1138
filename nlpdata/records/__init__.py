"""Record files: the data contract, encoding and decoding, writing, reading, verification."""
