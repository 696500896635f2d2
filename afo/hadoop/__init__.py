"""What every client of Hadoop shares: configuration, tickets, tokens, HTTP."""
