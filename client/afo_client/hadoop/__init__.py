"""A real HDFS and YARN on this machine: real daemons from Maven's jars, as processes of the user."""

from afo_client.hadoop.cluster import Cluster
from afo_client.hadoop.cluster_layout import ClusterSpec

__all__ = ["Cluster", "ClusterSpec"]
