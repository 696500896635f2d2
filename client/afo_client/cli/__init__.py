"""The `afo` command: a module a verb, and what their options share."""
