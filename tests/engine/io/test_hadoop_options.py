"""Options of Hadoop's file system, as Paimon and Hadoop spell them."""

from __future__ import annotations

import pytest

from morrow.engine.errors import InvalidArgument
from morrow.engine.io.hadoop_options import hadoop_options
from morrow.engine.io.hdfs import HdfsStore


def test_a_prefix_is_left_out_and_tuning_has_no_effect() -> None:
    found = hadoop_options(
        {
            "hadoop.dfs.nameservices": "ns",
            "dfs.ha.namenodes.ns": "a,b",
            "hadoop.security.authentication": "simple",
            "hadoop-conf-dir": "/etc/hadoop",
            "dfs.replication": "2",
            "dfs.blocksize": "64M",
            "dfs.client.read.shortcircuit": "true",
            "ipc.client.connect.max.retries": "3",
        }
    )
    assert found.config == {
        "dfs.nameservices": "ns",
        "dfs.ha.namenodes.ns": "a,b",
        "hadoop.security.authentication": "simple",
    }
    assert (found.conf_dir, found.replication, found.block_size) == ("/etc/hadoop", 2, 64 << 20)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("dfs.replicaton", "1", "did you mean 'dfs.replication'"),
        ("dfs.encrypt.data.transfer", "true", "is not known"),
        ("dfs.replication", "0", "a number, 1 or more, not '0'"),
        ("dfs.blocksize", "1.5g", "a number, 1 or more, not '1.5g'"),
    ],
)
def test_what_is_not_understood_is_refused(option: str, value: str, said: str) -> None:
    with pytest.raises(InvalidArgument) as told:
        HdfsStore.of_url("hdfs://namenode/lake", {option: value})
    assert option in str(told.value)
    assert said in str(told.value)
