"""The deciding core: every stimulus is dispatched to the policies here. No I/O, no clock, no threads."""
