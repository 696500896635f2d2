"""The task's port, and the tunnel that others reach it through."""
