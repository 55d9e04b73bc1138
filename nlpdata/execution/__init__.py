"""Work on this machine: worker processes, and sorting more than fits into memory."""
