"""Failures: the catalogue of causes why tasks and jobs end, and how an end is told to be one of them."""
