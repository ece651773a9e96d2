"""From metadata to an immutable ScanPlan: time travel, pruning, sections, explain."""
