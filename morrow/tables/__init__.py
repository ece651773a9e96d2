"""The class `Table`, and what it is made of: one module for each of its sides; format tables; many tables at once."""
