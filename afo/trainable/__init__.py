"""Models as they are trained on parameter servers, and as they are loaded to score: built in, and a user's own."""
