"""What follows from jobs and is shown: charts, timelines, advice, sums, columns. Pure."""
