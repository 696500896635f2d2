"""Text and JSON as files of every kind share them: YAML with places, types in words, units, bounds."""
