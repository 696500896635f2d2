"""What somebody wants of this task: commands beside its process, stacks, profiles."""
