"""The runtime of all jobs: the data exchanged with tasks, and the division of work among them."""
