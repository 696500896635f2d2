"""The TensorFlow processes of a job: parameter server, worker, chief, evaluator."""
