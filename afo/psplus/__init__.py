"""afo's own parameter server: its transport in C++ over the engine in `afo/core`, and the library of both."""
