"""What keeps the files that Spark has found by itself: Java text of its own, compiled where masks are joined."""
