"""Records with lists of values: of strings that are weighed, of ids that are cut off, of a fixed number."""

import numpy as np

from afo.data.example import encode
from afo.data.feature import Feature
from afo.data.schema import Schema

LENGTH = 12
SCHEMA = Schema(
    label="label",
    features=(
        Feature(name="user", kind="categorical"),
        Feature(name="words", kind="string", max_length=LENGTH, weights="worth", combiner="sqrtn"),
        Feature(name="worth", kind="dense", max_length=LENGTH),
        Feature(name="city", kind="string", vocab=("Bonn", "Ulm")),
        Feature(name="seen", kind="categorical", max_length=LENGTH),
        Feature(name="liked", kind="categorical", shape=(LENGTH,)),
        Feature(name="age", kind="dense", buckets=(20.0, 40.0)),
    ),
)


def records(count: int, seed: int = 1) -> list[bytes]:
    """Whose label follows from what was seen and read."""
    generator, found = np.random.default_rng(seed), []
    for _ in range(count):
        seen = generator.zipf(1.3, generator.integers(0, LENGTH + 3)) % 1000 + 1
        words = generator.zipf(1.5, generator.integers(0, LENGTH + 1)) % 500
        log_odds = (np.sum(seen % 3 == 0) - np.sum(seen % 3 == 1)) / 2 + np.sum(words % 2) / 4
        record = {
            "user": [int(generator.integers(50))],
            "words": [f"w{word}" for word in words],
            "worth": generator.integers(0, 3, len(words)).astype(float).tolist(),
            "city": [str(generator.choice(["Bonn", "Ulm", "Trier"]))],
            "seen": seen.tolist(),
            "liked": (generator.zipf(1.4, LENGTH) % 300).tolist(),
            "age": [float(generator.uniform(10, 60))],
            "label": [int(generator.random() < 1 / (1 + np.exp(-log_odds)))],
        }
        found.append(encode({name: values for name, values in record.items() if values}))
    return found
