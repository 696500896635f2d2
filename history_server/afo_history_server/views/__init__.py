"""Views of jobs: charts, timelines, advice, sums, columns. Pure."""
