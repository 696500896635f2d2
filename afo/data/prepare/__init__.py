"""Data before a job: converted, inferred, inspected, profiled, awaited."""
