"""The Application Master's threads, files and clocks around its core."""
