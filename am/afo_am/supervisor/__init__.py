"""The supervisor: starts the Application Master, and again when it ends or stands still."""
