"""A campaign that runs pypaimon's own tests against `morrow.compat.pypaimon`.

    python -m tests.campaigns.compat [.../paimon-python] [--tests 'reader_*'] [--write]

| module | content |
|---|---|
| `sources` | the tests of pypaimon's version, fetched from Paimon's repository, with their imports changed |
| `hook` | a pytest plugin that records how each test ended; pypaimon's internal modules are placeholders in it |

With ``--own`` the tests run unchanged, against pypaimon with Morrow in the same environment and process.

Nothing of the tests is kept. A test ends in one of these ways:

* *passed*;
* *answered*: pypaimon raises a `NotImplementedError`, and Morrow answers;
* *refused*: with an `Unsupported`, which names Morrow's way;
* *internal*: it uses modules or attributes of pypaimon that are not its public interface;
* *failed*: in any other way;
* *skipped*: by itself.
"""
