"""Orders to this task: commands beside its process, stacks, profiles."""
