"""Pages, the API, and who may see them."""
