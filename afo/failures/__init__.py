"""Why tasks and jobs end: the catalogue of causes, and how an end is told to be one of them."""
