"""The runtime of all jobs: what travels to tasks and back, and how work is divided among them."""
