"""AFO_MODEL_DIR of a program, and its copy beside the job's checkpoints."""
