"""Which keys of a table get a row, and which lose theirs."""

from typing import NamedTuple

from afo.errors import SpecError
from afo.job.table_limits import LEAST_CHANCE, MOST_BLOOM_COUNT, MOST_COUNT, MOST_KEYS, MOST_STEPS


class Filter(NamedTuple):
    """A key gets a row when training has met it `min_count` times, or by chance at each sighting; all keys by default.

    Until then all its weights are `default_value`, and gradients of it are dropped. Occurrences in a batch all count.
    With a `max_element_size` counts are those of a counting Bloom filter for so many keys of the table on all servers:
    never too low, and of so many keys a share of `false_positive_probability` is admitted too early.
    """

    min_count: int = 1
    probability: float = 1.0
    default_value: float = 0.0
    max_element_size: int = 0
    false_positive_probability: float = 0.01

    @property
    def is_open(self) -> bool:
        """Whether every key is admitted at once."""
        return self.min_count == 1 and self.probability == 1

    def check(self) -> None:
        """Raises SpecError."""
        if not 1 <= self.min_count <= MOST_COUNT:
            raise SpecError(f"a filter's min_count must be 1 to {MOST_COUNT}, not {self.min_count}")
        if not 0 < self.probability <= 1:
            raise SpecError(f"a filter's probability must be above 0 and at most 1, not {self.probability}")
        if self.min_count > 1 and self.probability < 1:
            raise SpecError("a filter has min_count or probability, not both")
        if not 0 <= self.max_element_size <= MOST_KEYS:
            raise SpecError(f"a filter's max_element_size must be 0 to {MOST_KEYS}, not {self.max_element_size}")
        if not LEAST_CHANCE <= self.false_positive_probability < 1:
            chance = self.false_positive_probability
            raise SpecError(f"a filter's false_positive_probability must be {LEAST_CHANCE} to below 1, not {chance}")
        if self.max_element_size and not 1 < self.min_count <= MOST_BLOOM_COUNT:
            raise SpecError(
                f"a filter with max_element_size needs a min_count of 2 to {MOST_BLOOM_COUNT}, not {self.min_count}"
            )


class Eviction(NamedTuple):
    """Rows that `TableGroup.evict` removes, by any of these; 0 (of `unused_time` None) means not by this.

    `unused_steps`: no update for more steps than this, also of keys that wait for admission. `l2_weight`: the weights'
    squares sum to less. `capacity`: rows of the table on all servers, about; the longest unused ones go. `unused_time`:
    no update for more seconds than this; in a job, whose checkpoints know which step was when.
    """

    unused_steps: int = 0
    l2_weight: float = 0.0
    capacity: int = 0
    unused_time: float | None = None

    def check(self) -> None:
        """Raises SpecError."""
        for name, value in self._asdict().items():
            if value is not None and value < 0:
                raise SpecError(f"an eviction's {name} must be 0 or more, not {value}")
        if self.unused_steps > MOST_STEPS:
            raise SpecError(f"an eviction's unused_steps must be at most {MOST_STEPS}, not {self.unused_steps}")
