"""What a job on another machine takes along."""
