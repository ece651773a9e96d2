"""Interfaces of other libraries over Morrow, for programs that move in by changing an import."""
