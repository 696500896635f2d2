"""Documents that one program hands to another: configurations, tasks, orders."""
