"""The model server: its configuration, and its process."""
