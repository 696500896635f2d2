"""Variables on parameter servers: made, cut into shards, pulled, pushed, counted."""
