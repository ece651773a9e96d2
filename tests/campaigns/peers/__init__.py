"""A campaign that runs pypaimon's test suite and repeats its reads with Morrow.

    python -m tests.campaigns.peers .../paimon-python --python .../pypaimon/bin/python [--tests reader_*_test.py]

| module | content |
|---|---|
| `hook` | a pytest plugin that runs in pypaimon's environment and sends each read as it happens |
| `filters` | converts the sent predicates to Polars expressions |
| `answering` | repeats and compares a read, and appends or upserts to a copy of the table |
| `suite` | runs each test file in its own pytest, which talks to this process |

Nothing of the suite is copied: its folder is an argument. `hook` imports neither Morrow nor the other modules.
"""
