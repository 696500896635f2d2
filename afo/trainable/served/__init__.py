"""A model as it is evaluated and served: its tables read only, in the forms that a SavedModel holds."""
