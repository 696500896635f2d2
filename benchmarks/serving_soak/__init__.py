"""`make soak-serving`: a job that trains, its versions behind a model server under load, and faults of both.

A checker asks for the same records all the time, and every answer has to be the one that TensorFlow gives with the
version that the answer names.
"""
