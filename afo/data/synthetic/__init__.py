"""Made-up clicks of a known teacher, and models of a known behaviour."""
