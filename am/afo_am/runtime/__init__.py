"""Container runtimes: where the AM's containers come from."""
