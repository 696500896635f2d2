"""The state of a job in the Application Master: a function of its events. Nothing decides here."""
