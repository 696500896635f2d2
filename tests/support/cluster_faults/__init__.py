"""What happens to jobs of conf/jobs/adult-yarn.yaml on a real cluster: 20 faults, four of which a job goes through."""

from cluster_faults.daemons import NodeIsLost, NodeReturns, Restart
from cluster_faults.fault import Fault
from cluster_faults.nodes import CutLink, FullDisk
from cluster_faults.processes import AmContainer, Child, Master, Pause, PsChild, Trainer
from cluster_faults.tenants import Memory, Preemption

#: Each line is a job, and one fault of it comes in each phase: all combinations in four rounds.
GROUPS: tuple[tuple[Fault, ...], ...] = (
    (Trainer("worker"), Restart("resourcemanager", 5), Trainer("ps"), AmContainer()),
    (Child(), Restart("namenode", 10), Trainer("evaluator"), FullDisk()),
    (Trainer("chief"), Restart("datanode", 5), Master(), NodeReturns()),
    (PsChild(), Memory(), Pause("AM"), CutLink(20)),
    (NodeIsLost(), Pause("ps"), Preemption(), Pause("worker")),
)

#: Those after which tokens are needed anew: by whoever connects again, by a container or an AM that starts later.
SECURED_GROUPS: tuple[tuple[Fault, ...], ...] = (
    (Restart("namenode", 10), AmContainer(), Restart("resourcemanager", 5), PsChild()),
    (Restart("datanode", 5), Child(), Master(), NodeReturns()),
)

__all__ = ["GROUPS", "SECURED_GROUPS", "Fault"]
