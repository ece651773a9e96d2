"""What lets Spark scan the files of a plan: Java text of its own, compiled by the first read."""
