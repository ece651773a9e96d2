"""Types of Paimon and of Spark: each side's as the other's."""
