"""TensorBoard summaries: written locally, copied to the job's directory."""

from pathlib import Path

import tensorflow as tf

from afo import storage


class Summaries:
    """One event file of one role, `summary_url`/<run>/…."""

    def __init__(self, summary_url: str, run: str, scratch: Path) -> None:
        self._url = storage.join(summary_url, run)
        self._directory = scratch / "summaries" / run
        self._writer = tf.summary.create_file_writer(str(self._directory))

    def write(self, step: int, scalars: dict[str, float]) -> None:
        """Add numbers; names are `group/name`."""
        with self._writer.as_default():
            for name, value in scalars.items():
                tf.summary.scalar(name, value, step=step)

    def close(self) -> None:
        """Nothing is written any more."""
        self._writer.close()

    def publish(self) -> None:
        """Copy what there is. Event files are small: they are copied whole, and readers see whole files only."""
        self._writer.flush()
        for path in sorted(self._directory.iterdir()):
            storage.upload(str(path), storage.join(self._url, path.name))
