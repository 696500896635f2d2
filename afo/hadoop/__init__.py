"""Hadoop basics that every client of it shares: configuration, tickets, tokens, HTTP."""
