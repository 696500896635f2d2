"""Logistic regression of scikit-learn as its users write it: `TASK_JSON` on the command line, probabilities on stdout.

The task: `train` and `test` (CSV files with a header), `label`, `positive`, `numbers` and `words` (names of columns).
"""

import json
import sys

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler


def main(task: dict[str, object]) -> dict[str, float]:
    """Its metrics on the test file."""
    train, test = (pd.read_csv(task[name], keep_default_na=False) for name in ("train", "test"))
    numbers, words = task["numbers"], task["words"]
    columns = make_column_transformer((StandardScaler(), numbers), (OneHotEncoder(handle_unknown="ignore"), words))
    model = make_pipeline(columns, LogisticRegression(max_iter=2000))
    model.fit(train[numbers + words], train[task["label"]] == task["positive"])
    labels = (test[task["label"]] == task["positive"]).to_numpy()
    found = model.predict_proba(test[numbers + words])[:, 1]
    return {
        "auc": roc_auc_score(labels, found),
        "log_loss": log_loss(labels, found),
        "calibration": float(np.mean(found) / np.mean(labels)),
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
