"""Jobs of the `local` runtime, whose containers are processes of this machine."""
