"""Trains a model of conf/models by Keras alone, in this one process: prints the AUC of each label as JSON.

python plain_keras.py PUBLIC_PY TRAIN_FILES EVAL_FILES SEED EPOCHS BATCH_SIZE
"""

import importlib.util
import json
import sys

import keras
import numpy as np
from plain_tensorflow import auc


def main(public: str, train: str, evaluation: str, seed: int, epochs: int, batch_size: int) -> None:
    spec = importlib.util.spec_from_file_location("public", public)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    keras.utils.set_random_seed(seed)
    model = module.build()
    model.fit(*module.load(train), batch_size=batch_size, epochs=epochs, verbose=0)
    features, labels = module.load(evaluation)
    answers = model.predict(features, batch_size=4096, verbose=0)
    pairs = zip(labels, answers, strict=True) if isinstance(answers, list) else [(labels, answers)]
    found = [auc(np.asarray(truth)[:, 0], answer[:, 0]) for truth, answer in pairs]
    print(json.dumps({"aucs": found, "afo": [name for name in sys.modules if name.partition(".")[0] == "afo"]}))


if __name__ == "__main__":
    main(*sys.argv[1:4], *map(int, sys.argv[4:7]))
