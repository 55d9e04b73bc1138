"""Files: paths here and on remote file systems, compression, archives, temporary and mapped files."""
