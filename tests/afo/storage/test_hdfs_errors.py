"""Errors of hdfs-native in the words of afo."""

import pytest

from afo.errors import ClusterUnreachable
from afo.storage.hdfs_errors import translate

_ID = 'id: DatanodeIdProto { ip_addr: "127.0.0.1", host_name: "node-1", xfer_port: 9866 }'
_NODE = f"DatanodeInfoProto {{ {_ID}, capacity: Some(5), admin_state: Some(Normal), cache: None }}"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (f'DataTransferError("no answer of {_NODE} in time")', "no answer of DatanodeInfo(node-1) in time"),
        (f"DataTransferError: [{_NODE}, {_NODE}]", "[DatanodeInfo(node-1), DatanodeInfo(node-1)]"),
        ("DataTransferError: BlockProto { a: 1 } and BlockProto { b: B {", "Block and Block"),
        ("All DataNodes failed", "All DataNodes failed"),
    ],
)
def test_structures_are_cut_to_what_they_are_of(said: str, told: str) -> None:
    error = translate(RuntimeError(said), "read", "hdfs:///x", "h:1")
    assert isinstance(error, ClusterUnreachable)
    assert told in str(error)
    assert "Proto" not in str(error)
