"""What puts the folder of a table in order: orphan files, hints, and a table emptied with its history."""
