"""Lanes of tasks, also of those of which the log tells only a part."""

from afo_history_server.model.job_history import Attempt, JobHistory
from afo_history_server.views.timeline import timeline


def test_an_attempt_whose_beginning_the_log_lacks_has_no_bar() -> None:
    known = Attempt(role="ps", index=0, attempt=0, requested=10.0, registered=14.0)
    lost = Attempt(role="worker", index=0, attempt=0, ended=20.0, cause="node_lost")
    used = Attempt(role="worker", index=1, attempt=0, peak_rss=1)
    drawn = timeline(JobHistory(job_id="local_1_1", started=10.0, last_event=20.0, attempts=(known, lost, used)), 30.0)
    assert drawn
    job, ps, first, second = drawn.lanes
    assert [(bar.kind, bar.start, bar.width) for bar in ps.bars] == [("waiting", 0.0, 200.0), ("running", 200.0, 800.0)]
    assert (job.bars, first.bars, second.bars) == ((), (), ())
    assert [(mark.kind, mark.at) for mark in first.marks] == [("failed", 500.0)]
