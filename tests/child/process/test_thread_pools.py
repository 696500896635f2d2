"""TensorFlow's thread pools in a task, counted by their threads in the process that a real Child has started."""

import json

import pytest
from msgspec.structs import replace

from fake_master import FakeMaster

pytestmark = pytest.mark.tensorflow

#: Threads of the intra-op pool have no name of their own and so the process's; a tf.function's inter-op pool has one.
COUNT = """
import collections
own = Path("/proc/self/comm").read_text()
def threads():
    return collections.Counter(path.read_text() for path in Path("/proc/self/task").glob("*/comm"))
import tensorflow as tf
before = threads()
square = tf.random.normal([600, 600])
tf.function(lambda: tf.matmul(square, square) + square)()
more = threads() - before
mark("threads", json.dumps([more[own], more["tf_Compute\\n"]]))
forever()
"""


def test_a_task_has_as_many_threads_in_each_pool_as_its_container_has_cores(container, master: FakeMaster) -> None:
    """Three, which this machine's number of cores would not give but by chance."""
    container.start(COUNT, environment={"TF_NUM_INTRAOP_THREADS": "9", "TF_NUM_INTEROP_THREADS": "9"})
    master.say("run", ps=("h1:1", "h2:2"))
    assert json.loads(container.marked("threads")) == [3, 3]


@pytest.mark.slow
def test_the_job_file_decides_over_the_cores(container, master: FakeMaster) -> None:
    container.start(COUNT, variables={"TF_NUM_INTRAOP_THREADS": "5"})
    master.say("run", ps=("h1:1", "h2:2"))
    assert json.loads(container.marked("threads")) == [5, 3]


def test_a_program_has_threads_to_wait_in_for_every_worker(container, master: FakeMaster) -> None:
    """A chief and two workers: four, in containers of one core."""
    container.start_program(COUNT)
    master.say("wait", 1)
    beat = master.heartbeat(lambda beat: beat.generation == 1 and bool(beat.address), "an address")
    master.say("run", 1)
    cluster = {"chief": ("h:1",), "worker": ("h:2", beat.address)}
    master.directive = replace(master.directive, cluster=cluster)  # type: ignore[arg-type]
    assert json.loads(container.marked("threads")) == [1, 4]
